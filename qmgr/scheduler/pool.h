#pragma once
/// The pool: jobs that wait without a connection, by cluster and party, and what they wait for.
///
/// No party waits in vain: of the parties that wait in a cluster because its destinations are at their limits, one
/// is woken when a limit may have risen or a connection has gone (Model::unblock()). It looks, and when it leaves,
/// whatever became of it, it wakes the next (take_left()); until one finds that the limits stand. So one that took
/// nothing passes its turn on, and of thousands that wait one looks in vain.
///
/// For what is left to others (finish.h) a time is estimated by which they take it, and how many jobs they can do. When
/// that time has come, or more jobs wait, one looks again. Limits that were learned rise with time alone: so one looks
/// each second at the latest.
///
/// Use:     put() and take() by Model, which decides for which cluster; free workers, connections with room and
///          idle connections take from it (pump.cc).
/// Owns:    nothing; the lines are Cluster::round, Cluster::full and those of the transport.
#include <cstdint>
#include <set>
#include <utility>

#include "qmgr/scheduler/job.h"
#include "qmgr/scheduler/message.h"
#include "qmgr/scheduler/share.h"

namespace pen::qmgr::scheduler {

class Pool {
 public:
  /// turn: rises with each place in a line that is given away.
  Pool(const Clock& clock, std::uint64_t& turn, TransportsToServe& to_serve, Shares& shares)
      : clock_(clock), turn_(turn), to_serve_(to_serve), shares_(shares) {}
  /// at_front: it looked in vain, and has not lost its place.
  void put(Job& j, Waits waits, bool at_front);
  void take(Job& j);
  /// One of the parties that wait for limits waits for a worker from now on, unless another does so already.
  bool wake(Cluster& c);
  /// A host of the cluster works: no party waits there for a worker that may only probe.
  void probe_no_more(Cluster& c);
  /// A cluster that a party left while awake: others may have what it did not take. nullptr: there is none.
  Cluster* take_left() { return left_.pop_front(); }

  /// A party of the cluster just looked in vain: what waits there is left to connections that could have done so many
  /// jobs by that time; 0: to none, the limits stand.
  void leave_to_others(Cluster& c, std::size_t could, microseconds after);
  static bool left_to_others(const Cluster& c) { return c.others_can > 0 && c.pooled <= c.others_can; }
  /// More waits than was left to others.
  static bool too_many_for_others(const Cluster& c) { return c.others_can > 0 && c.pooled > c.others_can; }
  /// One of those others went: the estimate no longer holds.
  static void others_changed(Cluster& c) { c.others_can = 0; }
  /// A cluster in which a party is to look again by now; its next time comes later. nullptr: there is none.
  Cluster* take_due();
  SteadyTime next_look() const { return looks_.empty() ? kNever : looks_.begin()->first; }

 private:
  void look_at(Cluster& c, SteadyTime when);
  void wait_for(PoolShare& s, Waits waits, bool at_front = false);
  void end_wait(PoolShare& s);
  Claim& claim(Party& p, Transport& t, bool probe);
  const Clock& clock_;
  std::uint64_t& turn_;
  TransportsToServe& to_serve_;
  Shares& shares_;
  List<Cluster> left_;
  std::set<std::pair<SteadyTime, Cluster*>> looks_;  // clusters in which some wait for limits, by look_at
};

}  // namespace pen::qmgr::scheduler
