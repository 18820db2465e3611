/// Rate delays: one connection, and a pause between the end of a delivery and the begin of the next. Each host keeps
/// its own: were the hosts of a route one, whoever names a host in his MX records could hold it up for others.
/// Source:  Postfix's <transport>_destination_rate_delay, which counts by next hop.
#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

void Model::pause(Destination& d) {
  if (!keeps_pace(d)) return;
  paused.erase({d.paused_until, d.key});
  d.paused_until = now + d.transport->limits.rate_delay;
  paused[{d.paused_until, d.key}] = &d;
}

void Model::end_pauses() {
  while (!paused.empty() && paused.begin()->first.first <= now) {
    Destination& d = *paused.begin()->second;
    paused.erase(paused.begin());
    ++d.references;
    for (Connection* c : std::vector<Connection*>(d.connections)) {
      hand_out(*c);
      if (c->jobs() == 0) set_idle(*c);
    }
    unblock(d);
    --d.references;
    drop_if_unused(d);
  }
}

void Model::drop_if_unused(Destination& d) {
  if (d.references > 0 || d.holding > 0) return;
  if (d.paused_until > now) return;  // its pause counts for whoever comes next
  paused.erase({d.paused_until, d.key});
  leave_class_line(d);
  const std::string key = d.key;
  destinations.erase(key);
}

}  // namespace pen::qmgr::scheduler
