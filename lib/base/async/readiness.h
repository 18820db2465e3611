#pragma once
/// Waiting for a descriptor that is not a Stream: datagram sockets, listening sockets watched for others.
///
/// Use:     Readiness r(loop, fd);  co_await r.readable(until);  ::recvfrom(fd, …);
/// Rules:   events are level-triggered: a wait ends at once when the descriptor is ready already. One waiter per
///          direction.
/// Owns:    nothing: the descriptor must outlive the Readiness, and the Readiness every wait on it.
/// Errors:  timed_out, cancelled, or the errno of a descriptor that cannot be watched.
/// Thread:  the loop's.
#include <memory>

#include "lib/base/async/loop.h"

namespace pen::async {

class Readiness {
 public:
  Readiness(Loop& loop, int fd);
  ~Readiness();
  Readiness(Readiness&&) noexcept;
  Readiness& operator=(Readiness&&) noexcept;

  Task<Result<void>> readable(Until until = {});
  Task<Result<void>> writable(Until until = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pen::async
