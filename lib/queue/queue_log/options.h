#pragma once
/// The queue log's settings.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/time.h"

namespace pen::queue_log {

/// Intervals from `minimal`, doubling, up to `maximal` (which is the last): minimal_backoff_time,
/// maximal_backoff_time.
std::vector<seconds> retry_ladder(seconds minimal, seconds maximal);

/// With logs for mail that waits for its time: at the long end each four times the one before, up to `longest`, and at
/// the short end a quarter of the one behind, down to kLastSeconds. So a message is written anew a few times, however
/// long it waits, and leaves within kLastSeconds of its time. 32 in all.
std::vector<seconds> with_release_logs(std::vector<seconds> ladder, seconds longest);
inline constexpr seconds kLastSeconds{4};

/// Where deferred messages wait.
enum class RetryLogs : std::uint8_t {
  many,    // one log per interval: its head is always the next one due
  single,  // one log, in which the runner of each interval passes over the messages of the others
};

struct Options {
  // queue_log_segment_size; 8 KiB … 1 GiB, a multiple of 4096
  std::uint32_t segment_size = 64U << 20;
  std::vector<seconds> intervals;  // of the retry logs, ascending, at most 32; see retry_ladder()
  // what an earlier start left in the other form is still run
  RetryLogs retry_logs = RetryLogs::many;
  // bytes kept for the replacement envelopes of the active set and for notifications, at least: more when what is being
  // worked on is larger; one segment per log comes on top
  std::uint64_t reserve = 16U << 20;
  // bytes appended between two saves of the restart positions
  std::uint64_t save_every = 16U << 20;
  // bytes behind the head at which an open START is stale; more when what is being worked on is large itself
  std::uint64_t suffix_limit = 64U << 20;
  // accepted ids kept for append()'s idempotence at most; half as many at least
  std::size_t remembered_ids = 65536;
  // bytes gathered beyond which append() answers no_space until the writer has caught up (bounds memory)
  std::size_t max_batch = 8U << 20;
  // messages worked on at once, as expected: tables have that size from the start, growing would stop everything for
  // milliseconds
  std::size_t expected_working = 0;
};

}  // namespace pen::queue_log
