#pragma once
/// The queue log as text, for people: one line per record, with whatever is not as it was written. Reads only.
///
/// Format:  docs/queue-format.md. A line begins with "use:offset" of the record it is about; lines about files and logs
///          begin with their name, damage with "DAMAGE".
/// Use:     Dump dump(options, [](const std::string& line) { … });
///          dump.directory(storage) or dump.segment(storage, slot);
///          dump.damage() … tells the exit code
/// Bounds:  one record (at most a quarter of a segment), one line, and a header per segment are in memory.
/// Errors:  errno of the storage; whatever the bytes are, they are no error: they are reported and reading goes on.
#include <cstdint>
#include <functional>
#include <string>

#include "lib/queue/queue_log/segment_reader.h"

namespace pen::queue_log {

class Dump {
 public:
  struct Options {
    bool verbose = false;  // every field, and one more line for what an envelope holds
    /// Describes an envelope's payload (opaque here) for verbose lines; may be empty.
    std::function<std::string(std::string_view payload)> payload;
  };
  using Line = std::function<void(const std::string&)>;
  Dump(Options options, Line line) : options_(std::move(options)), line_(std::move(line)) {}

  /// Restart positions, then every segment in use, log by log, oldest first, then the others by name only.
  Result<void> directory(Storage& storage);
  /// One segment, whether it is in use or not: what comes before and after it is unknown. `file_size` bytes of it
  /// exist.
  Result<void> segment(Storage& storage, Slot slot, std::uint64_t file_size);
  /// The file of restart positions.
  Result<void> positions(Storage& storage, std::uint64_t file_size);

  std::uint64_t records() const { return records_; }
  std::uint64_t damage() const { return damage_; }  // places that are not as they were written
  std::uint64_t damaged_bytes() const { return damaged_bytes_; }
  /// Headers and copies of the positions that another version of the format wrote: of what follows them nothing is
  /// shown.
  std::uint64_t other_versions() const { return other_versions_; }

 private:
  struct Surroundings {
    bool went_on = false;  // the log left it for another segment in the same epoch: it was sealed and synced
    Position synced;       // of its log, by the saved positions; use 0: unknown
  };
  Result<void> records(Storage& storage, const SegmentHeader& header, std::uint64_t file_size,
                       const Surroundings& around);
  void record(const SegmentHeader& segment, const SegmentReader& reader);
  Result<std::optional<SegmentHeader>> header(Storage& storage, Slot slot, std::uint64_t file_size);
  void other_version(const std::string& where, std::uint32_t version);
  void damaged(const std::string& where, std::uint64_t bytes, const std::string& what);

  Options options_;
  Line line_;
  std::optional<SavedPositions> saved_;
  std::uint64_t records_ = 0, damage_ = 0, damaged_bytes_ = 0, other_versions_ = 0;
};

}  // namespace pen::queue_log
