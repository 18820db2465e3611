#pragma once
/// What one commit does to the storage: writes and syncs in an order that matters. Made by
/// QueueLog::Commits::next_batch().
///
/// Thread:  made and completed in the loop's thread; execute() runs in one of the writer's, which touches nothing else.
///          Batches that are in hand at once may run at the same time.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/queue/queue_log/storage.h"

namespace pen::queue_log {

/// Numbers records that somebody waits for, upwards from 1.
using Ticket = std::uint64_t;

struct BatchStep {
  enum class Kind : std::uint8_t { write, sync, allocate, set_aside } kind = Kind::write;
  Slot slot = 0;
  std::uint64_t offset = 0;  // allocate: the size
  std::string bytes;
  bool failed = false;     // allocate: no space; set_aside: not renamed
  std::string error = {};  // set_aside: why not
};

class Batch {
 public:
  Batch() = default;
  Batch(Batch&&) noexcept = default;
  Batch& operator=(Batch&&) noexcept = default;

  /// Does everything, in order, and stops at the first error; typically one write and one sync. A
  /// segment that cannot be allocated for want of space, or not set aside, is not an error. Blocks.
  Result<void> execute(Storage& storage);
  /// One write, sync, allocation after the other, while !done(): for tests that cut in between.
  Result<void> step(Storage& storage);
  bool done() const { return done_ == steps_.size(); }
  /// Tickets up to this one are durable when it and those before it were executed; 0: nobody waits for it.
  Ticket covers() const { return covers_; }
  std::size_t bytes() const;

 private:
  friend class CommitLanes;
  std::vector<BatchStep> steps_;
  std::size_t done_ = 0;
  Ticket covers_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace pen::queue_log
