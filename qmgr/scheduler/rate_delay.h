#pragma once
/// Rate delays: one connection, and a pause between the end of a delivery and the begin of the next. Each host keeps
/// its own: were the hosts of a route one, whoever names a host in his MX records could hold it up for others.
///
/// Use:     pause(d) when a delivery ended; nothing is handed out while must_pause(d); when the first pause is over
///          (next_end()), each destination that take_ended() returns goes on.
/// Source:  Postfix's <transport>_destination_rate_delay, which counts by next hop.
#include <map>
#include <string>
#include <utility>

#include "qmgr/scheduler/clock.h"
#include "qmgr/scheduler/destination.h"

namespace pen::qmgr::scheduler {

class RateDelay {
 public:
  explicit RateDelay(const Clock& clock) : clock_(clock) {}
  /// The destination is one whose deliveries keep a distance.
  static bool keeps_pace(const Destination& d) { return d.transport->limits.rate_delay.count() > 0; }
  /// No delivery may begin now.
  bool must_pause(const Destination& d) const { return keeps_pace(d) && (d.handed > 0 || d.paused_until > clock_.now); }
  /// A delivery ended, whatever its result.
  void pause(Destination& d);
  /// A destination whose pause is over, once for each pause; nullptr: there is none.
  Destination* take_ended();
  /// When the first pause ends.
  SteadyTime next_end() const { return paused_.empty() ? kNever : paused_.begin()->first.first; }
  /// The destination is about to be forgotten. False: its pause counts for whoever comes next.
  bool forget(Destination& d);

 private:
  const Clock& clock_;
  std::map<std::pair<SteadyTime, std::string>, Destination*> paused_;  // by end and key
};

}  // namespace pen::qmgr::scheduler
