#include "qmgr/scheduler/rate_delay.h"

namespace pen::qmgr::scheduler {

void RateDelay::pause(Destination& d) {
  if (!keeps_pace(d)) return;
  paused_.erase({d.paused_until, d.key});
  d.paused_until = clock_.now + d.transport->limits.rate_delay;
  paused_[{d.paused_until, d.key}] = &d;
}

void RateDelay::begun(Transport& t) {
  if (t.limits.transport_rate_delay.count() == 0) return;
  t.paused_until = clock_.now + t.limits.transport_rate_delay;
  paused_transports_[{t.paused_until, t.name}] = &t;
}

Transport* RateDelay::take_ended_transport() {
  if (paused_transports_.empty() || paused_transports_.begin()->first.first > clock_.now) return nullptr;
  Transport* const t = paused_transports_.begin()->second;
  paused_transports_.erase(paused_transports_.begin());
  return t;
}

Destination* RateDelay::take_ended() {
  if (paused_.empty() || paused_.begin()->first.first > clock_.now) return nullptr;
  Destination* const d = paused_.begin()->second;
  paused_.erase(paused_.begin());
  return d;
}

bool RateDelay::forget(Destination& d) {
  if (d.paused_until > clock_.now) return false;
  paused_.erase({d.paused_until, d.key});
  return true;
}

}  // namespace pen::qmgr::scheduler
