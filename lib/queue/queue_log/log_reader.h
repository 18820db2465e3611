#pragma once
/// Reads a log's whole records over its segments, joining the parts of long ones.
///
/// Use:     LogReader reader(storage, segments_of(log), from, limit, SegmentReader::Search::window);
///          switch (*reader.next()) {
///            case Got::record: reader.record()…
///            case Got::hole: reader.hole()…
///          }
/// Bounds:  one record (at most kMaxMessage) and one chunk are in memory.
/// Errors:  errno of the storage.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/queue/queue_log/segment_reader.h"

namespace pen::queue_log {

/// The first segment of a log with this use or a later one; nullopt: there is none. Asked whenever the reader
/// goes on to a next segment, so that a log of thousands costs no more to read in than one of two.
using SegmentSource = std::function<std::optional<SegmentHeader>(std::uint64_t use)>;

/// Bytes of the body of a record in parts, at most: an envelope with the results that recovery adds to it.
inline constexpr std::size_t kMaxChain = std::size_t{128} << 20;

class LogReader {
 public:
  /// Reads from `from` up to `limit` (exclusive; use 0: no limit). `last` says how far to look in the last segment;
  /// earlier ones were synced before the log left them and are searched whole. What `segments` looks into outlives the
  /// reader.
  LogReader(Storage& storage, SegmentSource segments, Position from, Position limit, SegmentReader::Search last);

  struct Record {
    Position position;  // of its first part
    RecordType type = RecordType::envelope;
    std::uint32_t epoch = 0;
    bool garbage = false;
    // a mark that is neither 0 nor the one that means garbage: the record is live
    bool odd_mark = false;
    Bytes body;  // until the next call of next()
  };
  struct Hole {
    SegmentHeader segment;
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
    bool damage = false;      // was synced once, or cannot be read; else an unfinished write
    bool unreadable = false;  // the disk does not give the bytes back
  };
  enum class Got { record, hole, more, end };
  Result<Got> next();
  const Record& record() const { return record_; }
  const Hole& hole() const { return hole_; }
  /// Where the record after the current one may start.
  Position at() const;
  std::uint64_t bytes_read() const { return bytes_read_; }
  /// Records that are not whole at the ends of segments, met since the last call: writes that a crash cut, or damage.
  struct Unfinished {
    Position at;
    std::uint32_t bytes = 0;
  };
  std::vector<Unfinished> take_unfinished() { return std::exchange(unfinished_, {}); }

 private:
  std::optional<Got> take_record();
  bool left_by_sealing() const;

  Storage& storage_;
  SegmentSource segments_;
  std::optional<SegmentHeader> current_;  // being read, or to be read next
  std::uint64_t passed_ = 0;              // use of the last segment that was read to its end; 0: none
  Position from_;
  Position limit_;
  SegmentReader::Search last_;
  std::unique_ptr<SegmentReader> reader_;
  bool in_chain_ = false;
  std::string chain_;
  Record record_;
  Hole hole_;
  std::uint64_t bytes_read_ = 0;
  std::vector<Unfinished> unfinished_;
};

}  // namespace pen::queue_log
