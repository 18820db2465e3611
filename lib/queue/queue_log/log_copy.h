#pragma once
/// Copies a queue log while it is being written. What it leaves is what a power cut could have left at the moment when
/// the second ends were taken: nothing that was durable by then is missing, and recovery makes of it what it makes of
/// any crash.
///
/// Use:     commits.hold_positions();  … until no save is under way …
///          LogCopy copy(source, target);
///          PEN_TRY(copy.begin(commits.durable_ends()));
///          while (*copy.step(1 << 20)) …                        // long: the log goes on meanwhile
///          PEN_TRY(copy.finish(commits.durable_ends()));        // short; then the hold may end
/// Why:     docs/snapshot.md. What lies below the first ends changes in its garbage marks only, and a mark that is seen
///          here was justified by a record below the second ends. Of what comes between, the marks are left out.
/// Target:  an empty storage. It is synced at the end.
/// Memory:  a mebibyte, and some bytes for each segment.
/// Errors:  errno of both storages; damaged: no valid positions, or a segment that they name is not there.
/// Thread:  any one.
#include <map>
#include <string>
#include <vector>

#include "lib/queue/queue_log/error.h"
#include "lib/queue/queue_log/format.h"
#include "lib/queue/queue_log/queue_log.h"
#include "lib/queue/queue_log/storage.h"

namespace pen::queue_log {

class LogCopy {
 public:
  LogCopy(Storage& source, Storage& target) : source_(source), target_(target) {}
  /// Copies the positions and finds the segments.
  Result<void> begin(LogEnds ends);
  /// Copies about `budget` bytes further. false: nothing is left below the first ends.
  Result<bool> step(std::size_t budget);
  /// Adds what became durable since, up to these ends.
  Result<void> finish(const LogEnds& ends);

  std::uint64_t bytes() const { return bytes_; }  // copied so far
  std::uint64_t total() const { return total_; }  // below the first ends
  std::size_t segments() const { return done_.size(); }

 private:
  struct Part {
    SegmentHeader header;
    std::uint32_t to = 0;
  };
  /// The segments in use, with how far they are durable, oldest first. Leaves out those that are not.
  Result<std::vector<Part>> parts(const LogEnds& ends);
  Result<void> copy(const SegmentHeader& header, std::uint32_t from, std::uint32_t to);
  /// Makes all records in that range live.
  Result<void> clear_marks(const SegmentHeader& header, std::uint32_t from, std::uint32_t to);

  Storage& source_;
  Storage& target_;
  SavedPositions saved_;
  std::vector<Part> first_;
  std::size_t at_ = 0;                           // of first_
  std::map<std::uint64_t, std::uint32_t> done_;  // use: copied up to
  std::uint64_t bytes_ = 0, total_ = 0;
  std::string buffer_;
};

}  // namespace pen::queue_log
