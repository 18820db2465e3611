#pragma once
/// The pool: jobs that wait without a connection, by cluster and party, and for what they wait.
///
/// Nobody waits for nothing: of the parties that wait in a cluster because its destinations are at their limits, one
/// is woken when a limit may have risen or a connection has gone (Model::unblock()). It looks, and when it leaves,
/// whatever became of it, it wakes the next (take_left()); until one finds that the limits stand. So one that took
/// nothing passes its turn on, and of thousands that wait one looks in vain.
///
/// Use:     put() and take() by Model, which decides for whom; free workers, connections with room and idle connections
///          take from it (pump.cc).
/// Owns:    nothing; the lines are Cluster::round, Cluster::full and those of the transport.
#include <cstdint>

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
  /// One of those that wait for limits waits for a worker from now on, unless another does so already.
  bool wake(Cluster& c);
  /// A cluster that one left who was awake: others may have what it did not take. nullptr: there is none.
  Cluster* take_left() { return left_.pop_front(); }

  /// An event begins, or a connection went within one: what was left to others is looked at again.
  void new_event() { ++event_; }
  void leave_to_others(Cluster& c) const { c.left_to_others = event_; }
  bool left_to_others(const Cluster& c) const { return c.left_to_others == event_; }

 private:
  void wait_for(PoolShare& s, Waits waits, bool at_front = false);
  void end_wait(PoolShare& s);
  Claim& claim(Party& p, Transport& t, bool probe);
  const Clock& clock_;
  std::uint64_t& turn_;
  TransportsToServe& to_serve_;
  Shares& shares_;
  List<Cluster> left_;
  std::uint64_t event_ = 1;
};

}  // namespace pen::qmgr::scheduler
