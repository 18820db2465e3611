#pragma once
/// Windows: how many jobs a connection is given at once, and when another connection pays. speed.h has the times.
///
/// - A connection has as many jobs in hand as keep its peer busy for a round trip, and no more: what is in hand
///   cannot be given to another connection that falls free. The rest waits in the pool for the connection that is free
///   first.
/// - Which connection has the last jobs: finish.h. How many connections pay: paying.h.
/// - A job waits on a connection only for as long as opening another one would take; the fewer workers are free, the
///   longer.
/// - A connection to a host that was never measured has one job, or its share of what waits, up to what a path as long
///   as the handshake says hides if the host is quick; two where there are as many, which separates the two times.
#include <cstddef>

#include "qmgr/scheduler/finish.h"

namespace pen::qmgr::scheduler {

class Windows {
 public:
  Windows(const Options& options, const BackOff& back_off, const RateDelay& rate_delay, const Limits& limits,
          const Finish& finish)
      : options_(options), back_off_(back_off), rate_delay_(rate_delay), limits_(limits), finish_(finish) {}
  /// Whether it takes the next job now.
  bool may_take(const Connection& c) const;
  /// Whether it is so full that the next job should open another connection. pooled: jobs that wait in the pool for
  /// it and come first.
  bool backlogged(const Connection& c, std::size_t pooled) const;

 private:
  /// What a job may wait for on this connection before another connection pays.
  microseconds worth_waiting(const Connection& c) const;
  /// How many jobs it should have in hand, so that its peer never waits for the next one.
  std::size_t fitting(const Connection& c) const;
  /// The jobs that wait and those in hand, and the connections that there may be for them.
  struct Share {
    std::size_t jobs = 0, connections = 0, hosts = 0;
  };
  Share left_to_share(const Connection& c) const;
  const Options& options_;
  const BackOff& back_off_;
  const RateDelay& rate_delay_;
  const Limits& limits_;
  const Finish& finish_;
};

}  // namespace pen::qmgr::scheduler
