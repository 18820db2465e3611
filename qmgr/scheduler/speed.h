#pragma once
/// Speed: how long a host takes for a job, and how long the path to it is.
///
/// A server serves the messages of one connection one after another, whatever was sent ahead: sending ahead saves round
/// trips, and only further connections save the server's own time. So two times are kept apart. A job that finds its
/// connection with nothing in hand takes the path's time and the server's; from one result of a flow to the next it
/// is the server's alone. The TCP handshake says what the path takes at least (a proxy near by may have answered it);
/// how long the server thought before its greeting or its reply to EHLO says nothing.
///
/// A host that is much slower than the best of its level is passed over while those have room: busy for longer, its
/// connections would else be the ones that are open, and draw more than their share. A measure is believed for
/// ceiling_time, then the host is tried like the others.
#include <algorithm>
#include <memory>
#include <vector>

#include "qmgr/scheduler/back_off.h"
#include "qmgr/scheduler/clock.h"
#include "qmgr/scheduler/connection.h"

namespace pen::qmgr::scheduler {

class Speed {
 public:
  Speed(const Options& options, const Clock& clock, const BackOff& back_off)
      : options_(options), clock_(clock), back_off_(back_off) {}
  /// A job of the connection is done, this long after its first command was sent.
  void learn(Connection& c, microseconds since_begun) const;
  bool measured_lately(const Destination& d) const {
    return d.facts.measured <= clock_.wall && d.facts.measured + options_.ceiling_time > clock_.wall;
  }
  /// The time that its peer takes for a job; 0: it was not measured lately.
  microseconds expected(const Destination& d) const {
    return measured_lately(d) ? d.facts.service_time : microseconds(0);
  }
  /// With PIPELINING alone a message's content waits for the replies to its commands.
  static bool content_waits(const Destination& d) { return d.facts.pipelining && !d.facts.chunking; }
  /// What a job takes on a connection with nothing in hand.
  static microseconds alone(const Destination& d) {
    return d.facts.service_time + (content_waits(d) ? 2 : 1) * path(d);
  }
  /// The time from one result of a connection that is kept busy to the next. Where the window is too small for the
  /// path the peer waits for what comes next, and without CHUNKING for a round trip with each message.
  static microseconds pace(const Destination& d) {
    const microseconds its = d.facts.service_time;
    if (its.count() == 0 || d.facts.round_trip.count() == 0 || d.window == 0) return its;
    if (d.facts.chunking) return std::max(its, (its + path(d)) / d.window);
    return its + path(d) * (content_waits(d) && d.window == 1 ? 2 : 1);
  }
  /// How much longer than that the first job of a flow takes.
  static microseconds lead(const Destination& d) { return std::max(alone(d) - pace(d), microseconds(0)); }
  /// pace(); 0: that was not measured lately.
  microseconds expected_pace(const Destination& d) const { return measured_lately(d) ? pace(d) : microseconds(0); }
  /// The time that the path to its peer takes there and back.
  static microseconds path(const Connection& c) { return std::max(c.round_trip, c.destination->path); }
  static microseconds path(const Destination& d) { return std::max(d.path, d.facts.round_trip); }
  /// The shortest time of the level's hosts; hosts that were not measured lately count with the usual time. 0: only
  /// one works.
  microseconds best_of(const std::vector<std::unique_ptr<Member>>& level) const;
  /// Whether it is so much slower than the best of its level that it is used only when the best is full. best 0: never.
  bool slow(const Destination& d, microseconds best) const {
    return best.count() > 0 && measured_lately(d) && much_longer(d.facts.service_time, best);
  }
  static bool much_longer(microseconds time, microseconds best);

 private:
  microseconds service_time(Connection& c, microseconds since_begun) const;
  const Options& options_;
  const Clock& clock_;
  const BackOff& back_off_;
};

}  // namespace pen::qmgr::scheduler
