#pragma once
/// Rate delays: one connection, and a pause between the end of a delivery and the begin of the next. Each host keeps
/// its own: if the hosts of a route had one together, every domain that names a host in its MX records could hold it
/// up for others.
///
/// A transport may have a pause of its own, from the begin of a delivery to the begin of the next, wherever they go.
///
/// Use:     pause(d) when a delivery ended, begun(t) when one begins; nothing is handed out while must_pause(d); when
///          the first pause is over (next_end()), each destination that take_ended() returns goes on, and each
///          transport that take_ended_transport() returns.
/// Source:  Postfix's <transport>_destination_rate_delay, which counts by next hop; <transport>_transport_rate_delay.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "qmgr/scheduler/clock.h"
#include "qmgr/scheduler/destination.h"
#include "qmgr/scheduler/transport.h"

namespace pen::qmgr::scheduler {

class RateDelay {
 public:
  explicit RateDelay(const Clock& clock) : clock_(clock) {}
  /// The destination's deliveries keep a distance.
  static bool keeps_pace(const Destination& d) { return d.transport->limits.rate_delay.count() > 0; }
  /// Whether no delivery may begin now.
  bool must_pause(const Destination& d) const {
    if (d.transport->paused_until > clock_.now) return true;
    return keeps_pace(d) && (d.handed > 0 || d.paused_until > clock_.now);
  }
  /// Whether a connection would be open for nothing until the next delivery.
  static bool outlasts_idle(const Transport& t) {
    return std::max(t.limits.rate_delay, t.limits.transport_rate_delay) > t.limits.idle_age;
  }
  /// A delivery begins.
  void begun(Transport& t);
  /// A transport that has waited out its pause, once for each pause; nullptr: there is none.
  Transport* take_ended_transport();
  /// A delivery ended, whatever its result.
  void pause(Destination& d);
  /// A destination that has waited out its pause, once for each pause; nullptr: there is none.
  Destination* take_ended();
  /// When the first pause ends.
  SteadyTime next_end() const {
    const SteadyTime first = paused_.empty() ? kNever : paused_.begin()->first.first;
    return paused_transports_.empty() ? first : std::min(first, paused_transports_.begin()->first.first);
  }
  /// The destination is about to be forgotten. False: its pause counts for the next delivery.
  bool forget(Destination& d);

 private:
  const Clock& clock_;
  std::map<std::pair<SteadyTime, std::string>, Destination*> paused_;  // by end and key
  std::map<std::pair<SteadyTime, std::string>, Transport*> paused_transports_;
};

}  // namespace pen::qmgr::scheduler
