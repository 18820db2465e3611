#pragma once
/// Reads a log's whole records over its segments, joining the parts of long ones.
///
/// Use:     LogReader reader(storage, segments, from, limit, SegmentReader::Search::window);
///          switch (*reader.next()) { case Got::record: reader.record()…; case Got::hole:
///          reader.hole()… }
/// Bounds:  one record (at most kMaxMessage) and one chunk are in memory.
/// Errors:  errno of the storage.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/queue_log/segment_reader.h"

namespace pen::queue_log {

class LogReader {
 public:
  /// `segments` oldest first; reads from `from` up to `limit` (exclusive; use 0: no limit). `last`
  /// says how far to look in the last segment; earlier ones were synced before the log left them
  /// and are searched whole.
  LogReader(Storage& storage, std::vector<SegmentHeader> segments, Position from, Position limit,
            SegmentReader::Search last);

  struct Record {
    Position position;  // of its first part
    RecordType type = RecordType::envelope;
    std::uint32_t epoch = 0;
    bool garbage = false;
    bool odd_mark =
        false;   // a mark that is neither 0 nor the one that means garbage: the record is live
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
  std::vector<SegmentHeader> segments_;
  std::size_t current_ = 0;
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
