#pragma once
/// Reads the records of one segment forward, and finds the next one after bytes that are not a record.
///
/// Use:     SegmentReader reader(storage, header, from, SegmentReader::Search::whole);
///          while (true) { auto got = reader.next(); … }   // record, hole, end
/// Bounds:  holds at most a quarter of a segment and kChunk bytes. Each next() reads until a record, a hole's
///          end or kSlice bytes were looked at (`more`), so that a caller can spread the search over turns.
/// Errors:  errno of the storage, but for EIO: what cannot be read counts as bytes that are not a record.
#include <optional>
#include <set>
#include <string>

#include "lib/queue/queue_log/format.h"

namespace pen::queue_log {

/// One record, read for itself.
struct OneRecord {
  RecordHeader header;
  std::string bytes;  // header and body
  Bytes body() const { return as_bytes(bytes).subspan(kRecordHeader, header.length); }
};
/// The record at a known place, by one read when it takes no more than `guess` bytes, else by two. nullopt: there is
/// none, or it cannot be read together with what lies around it (EIO). Errors: other errnos of the storage.
Result<std::optional<OneRecord>> read_record(Storage& storage, const SegmentHeader& segment, std::uint32_t offset,
                                             std::size_t guess = 8192);

class SegmentReader {
 public:
  enum class Search {
    // the log's last segment: what follows the last record is stale, look only as far as a write may reach
    window,
    whole,  // a segment that was left full and synced: look to its end
  };
  /// Reads [from, limit); limit 0: to the end of the segment.
  SegmentReader(Storage& storage, const SegmentHeader& segment, std::uint32_t from, Search search,
                std::uint32_t limit = 0);

  enum class Got { record, hole, more, end };
  /// After `record`: header(), body() and offset() describe it until the next call. After `hole`:
  /// hole_start() and hole_bytes(); the record after it comes with the next call. After `end`:
  /// sealed() tells whether the segment's last index record was met; tail_start() where valid
  /// records ended.
  Result<Got> next();
  const RecordHeader& header() const { return header_; }
  Bytes body() const;
  std::uint32_t offset() const { return record_; }
  std::uint32_t hole_start() const { return hole_start_; }
  std::uint32_t hole_bytes() const { return hole_bytes_; }
  bool sealed() const { return sealed_; }
  std::uint32_t tail_start() const { return tail_; }
  /// Bytes of the hole, or after `end` behind the last record, could not be read.
  bool unreadable() const { return unreadable_; }
  /// After `end`: bytes of a record that begins where valid records ended and is not whole; 0: none. An unfinished
  /// write, or damage.
  std::uint32_t unfinished() const { return unfinished_; }
  std::uint64_t bytes_read() const { return bytes_read_; }
  const SegmentHeader& segment() const { return segment_; }
  static constexpr std::size_t kChunk = 256 * 1024;
  /// Read at first; doubles from read to read up to kChunk, so that one record costs little and a scan soon reads much.
  static constexpr std::size_t kFirstChunk = 4096;

 private:
  Result<Bytes> view(std::uint32_t offset, std::size_t wanted);
  Result<void> fill(std::uint64_t offset, MutableBytes into);
  bool take_bad(std::uint32_t before);

  Storage& storage_;
  SegmentHeader segment_;
  Search search_;
  std::uint32_t limit_;
  std::uint32_t at_;    // where to look next
  std::uint32_t tail_;  // end of the last valid record
  std::uint32_t record_ = 0;
  RecordHeader header_;
  std::uint32_t hole_start_ = 0;
  std::uint32_t hole_bytes_ = 0;
  bool record_waits_ = false;
  std::set<std::uint32_t> bad_pages_;  // read as zeros, not before tail_
  bool unreadable_ = false;
  std::uint32_t unfinished_ = 0;
  bool sealed_ = false;
  bool ended_ = false;
  std::string buffer_;
  std::size_t ahead_ = kFirstChunk;
  std::uint32_t buffer_start_ = 0;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace pen::queue_log
