#pragma once
/// One log of the queue: the records that were appended to it, and how far they were written and synced. Private to
/// lib/queue/queue_log.
///
/// Use:     auto at = log.put(RecordType::start, body);              // in memory
///          log.hand_over(false, buffers, steps);                    // into a batch (CommitLanes)
///          LogReader reader(storage, log.segments(), from, log.durable_to, …);
/// Owns:    what is gathered for the next batch. Its segments are the pool's, which outlives it.
/// Rules:   records in parts go on in the next segment; each segment ends with an index of its envelopes and a trailer.
///          What other parts set of a log stands open below, with the part that sets it.
/// Errors:  no_space and too_large: nothing was appended.
#include <deque>
#include <string>
#include <vector>

#include "lib/queue/queue_log/batch.h"
#include "lib/queue/queue_log/format.h"
#include "lib/queue/queue_log/id_filter.h"
#include "lib/queue/queue_log/log_reader.h"
#include "lib/queue/queue_log/pool.h"

namespace pen::queue_log {

/// A replacement written to another log; its FINISH (moved) waits for that log's sync.
struct Moving {
  std::string queue_id;
  Position replacement;
};

class Log {
 public:
  Log(LogId id, std::int64_t disk_interval, Surroundings& around, SegmentPool& pool)
      : id_(id), disk_interval_(disk_interval), around_(around), pool_(pool) {}
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  LogId id() const { return id_; }
  std::int64_t disk_interval() const { return disk_interval_; }  // what its segments' headers say
  bool shared() const { return disk_interval_ == kSharedRetryLog; }
  /// Where the next record goes. Of a log without an open segment: behind its last one.
  Position end() const;

  // --- set by others ---
  Position durable_to;          // everything below is synced: CommitLanes
  Position written_to;          // everything below was written: CommitLanes
  bool sync_wanted = false;     // a caller waits for the log; CommitLanes takes it back
  std::deque<Moving> moving;    // WorkTable
  bool thinned = true;          // the hold log: something left it since its runner last looked
  std::uint64_t taken_out = 0;  // the hold log: how many versions left it, by this process

  // --- segments ---
  const std::deque<SegmentUse>& uses() const { return uses_; }  // oldest first
  bool open() const { return open_; }                           // the last of uses() is being appended to
  bool filling(SegmentUse use) const { return open_ && uses_.back() == use; }
  /// In order, for a reader. The log outlives it.
  SegmentSource segments() const;
  void adopt(SegmentUse use) { uses_.push_back(use); }
  void drop_oldest() { uses_.pop_front(); }
  void drop(SegmentUse use) { std::erase(uses_, use); }
  /// A further segment; the one before is sealed. Errors: no_space.
  Result<void> roll();
  /// Ends the open segment. What is left of it is written and synced before anything of the next one.
  void seal();
  /// Breakage::append_after_torn_tail.
  void reopen(std::uint32_t offset);

  // --- appending ---
  bool can_append(std::size_t body) const;
  /// Appends a record in as many parts as it needs; `facts` of an envelope go to the index.
  template <class Body>
  Result<Position> put(RecordType type, const Body& body, const EnvelopeView* facts = nullptr) {
    const std::size_t size = encoded_size(body);
    if (size > kMaxChain) return fail(QueueLogError::too_large);
    if (!can_append(size)) return fail(QueueLogError::no_space);
    if (size > max_body(around_.options.segment_size)) return put_parts(type, as_bytes(encode(body)), facts);
    // Mostly it is encoded where it is written from.
    make_room(size);
    const Position at{uses_.back(), cursor_};
    const std::size_t start = begin_record(pending_);
    encode_to(pending_, body);
    end_piece(start, type, kFirstPart | kLastPart);
    if (facts != nullptr) add_index(at.offset, *facts, false);
    return at;
  }
  Result<Position> put_envelope(const EnvelopeView& body) { return put(RecordType::envelope, body, &body); }

  // --- committing ---
  std::size_t pending() const { return pending_.size(); }  // bytes of the open segment that no batch took
  bool has_sealed() const { return !left_.empty(); }       // a segment was sealed since the last batch
  std::uint64_t gathered() const;                          // bytes of both
  std::uint64_t gathered_records() const;                  // of both, but a header that waits for a first record
  /// Moves what was gathered into a batch. A header waits for the first record, or for positions that list it: a
  /// segment that was opened and never used leaves nothing on the disk. `buffers`: memory of earlier batches.
  void hand_over(bool even_a_header, std::vector<std::string>& buffers, std::vector<BatchStep>& steps);
  /// The slot of the open segment, if something in it that batches took is not synced.
  std::optional<Slot> slot_to_sync() const;
  /// Everything below is durable.
  void synced(const Position& to);
  /// A batch that syncs everything below was handed out, and was taken back.
  void sync_begins(const Position& to) {
    ++syncs_in_hand_;
    syncing_to_ = to;
  }
  void sync_ends() { --syncs_in_hand_; }
  /// Whether a batch in hand makes the record at that position durable.
  bool syncing(const Position& at) const { return syncs_in_hand_ != 0 && at < syncing_to_; }
  /// Whether everything below it is durable, or will be by a batch in hand.
  bool synced_soon(const Position& to) const { return to <= durable_to || (syncs_in_hand_ != 0 && to <= syncing_to_); }

  // --- due times ---
  /// The interval a version waits for; 0 in the journal and the hold log.
  seconds interval_of(std::uint32_t recorded) const;
  WallTime due(const Position& at, seconds interval, WallTime appended, WallTime now) const;
  /// Of a retry log: what is in it now is due, whatever its time.
  void make_due();

  // --- for listings ---
  const IdFilter& filter() const { return filter_; }                                // of the open segment's envelopes
  const std::vector<std::uint32_t>& index_chunks() const { return index_chunks_; }  // offsets of its index records

 private:
  Position put_parts(RecordType type, Bytes body, const EnvelopeView* facts);
  void make_room(std::size_t body);
  void end_piece(std::size_t start, RecordType type, int flags);
  void add_index(std::uint32_t offset, const EnvelopeView& body, bool in_parts);
  void flush_index(bool sealed);

  LogId id_;
  std::int64_t disk_interval_;
  Surroundings& around_;
  SegmentPool& pool_;
  std::deque<SegmentUse> uses_;
  bool open_ = false;

  std::uint32_t cursor_ = 0;          // where the next record goes
  std::uint32_t taken_ = 0;           // bytes of the segment that batches took
  std::uint32_t durable_offset_ = 0;  // bytes of the segment that were synced
  std::string pending_;               // [taken, cursor)
  std::vector<BatchStep> left_;       // writes and syncs of segments that were sealed since the last batch
  int syncs_in_hand_ = 0;
  Position syncing_to_;

  GatheredIndex index_;
  std::uint32_t last_index_ = 0;
  std::vector<std::uint32_t> index_chunks_;
  IdFilter filter_;
  Position due_before_;  // versions below it are due whatever their time
};

/// All logs: the journal, the hold log, the configured retry logs; then what an earlier configuration left.
class Logs {
 public:
  Logs(Surroundings& around, SegmentPool& pool) : around_(around), pool_(pool) {}
  Log& add(std::int64_t disk_interval) {
    return logs_.emplace_back(static_cast<LogId>(logs_.size()), disk_interval, around_, pool_);
  }
  std::size_t size() const { return logs_.size(); }
  Log& operator[](LogId id) { return logs_[id]; }
  const Log& operator[](LogId id) const { return logs_[id]; }
  Log& journal() { return logs_.front(); }
  const Log& journal() const { return logs_.front(); }
  auto begin() { return logs_.begin(); }
  auto end() { return logs_.end(); }
  auto begin() const { return logs_.begin(); }
  auto end() const { return logs_.end(); }

 private:
  Surroundings& around_;
  SegmentPool& pool_;
  std::deque<Log> logs_;
};

/// What the replacement of an envelope may take: its recipients have notes by then.
inline std::uint64_t replacement_size(const EnvelopeView& body) {
  constexpr std::uint64_t kNote = 512;
  return encoded_size(body) + kNote * body.remaining.count();
}

/// It points into the envelope.
EnvelopeView make_body(const Envelope& envelope, std::uint32_t generation, WallTime appended, const Position& replaces);
EnvelopeView view_of(const EnvelopeBody& body);

}  // namespace pen::queue_log
