#pragma once
/// Which connection would finish a job first: what is expected of connections, by the time that their hosts took of
/// late.
///
/// A job goes to no connection on which it would end later than the others of its level could end all that waits: a
/// host that takes ten seconds gets none of the last jobs of a burst if the rest can finish them in two, and the
/// last jobs go to those connections that are free first. It is a guess, so it decides only where there is a choice,
/// and never against a connection that is not clearly later. A job that is left to other connections is taken
/// by them: only connections at work count, and with each result they look for the next job; when one goes, or the
/// job was not taken in time, the jobs that wait look again (pump.cc, pool.h).
///
/// Where all workers are taken, a worker is what is scarce: the connection to a slow host closes when its worker
/// would do more at another host of the same level.
#include <memory>
#include <span>
#include <vector>

#include "qmgr/scheduler/limits.h"
#include "qmgr/scheduler/speed.h"

namespace pen::qmgr::scheduler {

class Finish {
 public:
  Finish(const Options& options, const Clock& clock, const BackOff& back_off, const Speed& speed, const Limits& limits,
         const Shares& shares)
      : options_(options), clock_(clock), back_off_(back_off), speed_(speed), limits_(limits), shares_(shares) {}
  /// When its peer could begin with a further job that takes so long.
  microseconds free_in(const Connection& c, microseconds each) const;
  /// No connection to it is opened for a job that would wait shorter than that.
  microseconds worth_opening(const Destination& d) const {
    return std::max<microseconds>(d.facts.connect_time, options_.least_gain);
  }
  /// When a further job would be done on it, or on a new connection to it; 0: not known.
  microseconds ends_in(const Connection& c) const;
  microseconds ends_in(const Destination& d) const;
  /// How many further jobs could be done until then by the busy connections of the level, but for one, and by new ones
  /// to these destinations; it counts no further than `enough`.
  std::size_t by_others(const std::vector<std::unique_ptr<Member>>& level, microseconds end, std::size_t enough,
                        const Connection* without, std::span<Destination* const> openable) const;
  /// How many jobs could be done until then by connections that may be opened to it.
  std::size_t by_new_ones(const Destination& d, microseconds end) const;
  bool sooner_by_others(const std::vector<std::unique_ptr<Member>>& level, microseconds end, std::size_t number,
                        const Connection* without, std::span<Destination* const> openable) const {
    return by_others(level, end, number, without, openable) >= number;
  }
  /// A host of the same level where the connection's worker would do more, and a connection may be opened. nullptr:
  /// none.
  Destination* worker_is_better_at(const Connection& c) const;
  /// Whether the others would finish all that waits in the cluster, and so many jobs more, before this connection had
  /// done its next.
  bool leaves_to_others(const Connection& c, const Cluster& cluster, std::size_t further) const;

 private:
  const Options& options_;
  const Clock& clock_;
  const BackOff& back_off_;
  const Speed& speed_;
  const Limits& limits_;
  const Shares& shares_;
};

}  // namespace pen::qmgr::scheduler
