#pragma once
/// The segments of all logs: which are in use and by which log, which are free, and which nobody may use again. Private
/// to lib/queue/queue_log.
///
/// Use:     if (auto header = pool.take(log, interval, oldest)) …     // a segment comes into use
///          pool.pin(use) … pool.unpin(use)                           // it is needed while a message is worked on
///          auto slot = pool.retire(use) … pool.give_back(slots)      // nothing needs it; after a save it is free
/// Reserve: free segments that no new mail takes: at least one for each log and each restart, Options::reserve, and as
///          many as the replacements of all that is being worked on may take (promise()).
/// Damage:  a slot that holds lost bytes is set aside after it was retired, for a person to look at.
/// Errors:  no_space, errno of the storage.
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lib/queue/queue_log/damaged_slots.h"
#include "lib/queue/queue_log/error.h"
#include "lib/queue/queue_log/format.h"
#include "lib/queue/queue_log/surroundings.h"

namespace pen::queue_log {

using SegmentUse = std::uint64_t;

struct Segment {
  SegmentHeader header;
  LogId log = kJournal;
  std::uint32_t pins = 0;  // envelopes in it of open STARTs
};

class SegmentPool {
 public:
  explicit SegmentPool(Surroundings& around) : around_(around) {}

  // --- in use ---
  const std::map<SegmentUse, Segment>& in_use() const { return segments_; }
  /// nullptr: it is not in use.
  const Segment* find(SegmentUse use) const;
  /// 0: the use is not known.
  Slot slot_of(SegmentUse use) const;
  /// A segment that this start found. false: there is one with that use.
  bool adopt(const SegmentHeader& header, LogId log);
  /// The next uses are numbered from here on.
  void number_from(SegmentUse first) { first_use_ = next_use_ = first; }
  SegmentUse first_use() const { return first_use_; }  // of this process
  SegmentUse next_use() const { return next_use_; }
  /// The first free segment comes into use. Errors: no_space.
  Result<SegmentHeader> take(LogId log, std::int64_t disk_interval, std::optional<SegmentUse> oldest);
  void pin(SegmentUse use) { ++segments_.at(use).pins; }
  void unpin(SegmentUse use) { --segments_.at(use).pins; }

  // --- given back ---
  /// Takes a segment out of use. Returns its slot, to be given back after a save; nullopt: that is set aside instead.
  std::optional<Slot> retire(SegmentUse use);
  /// Takes a segment out of use; retire_condemned() returns its slot. What recovery gives back.
  void condemn(SegmentUse use);
  std::vector<Slot> retire_condemned();
  /// `at_once`: these are the next to be used (Breakage::recycle_before_save).
  void give_back(const std::vector<Slot>& slots, bool at_once = false) {
    free_.insert(at_once ? free_.begin() : free_.end(), slots.begin(), slots.end());
  }
  /// A segment that has nothing in it, at a start.
  void recycle(SegmentUse use);

  // --- space ---
  /// At a start: the least segments of the reserve and those wanted beyond it; as many as a start needs are made. A
  /// full disk is no error.
  Result<void> fill(std::size_t reserve, std::size_t spare);
  std::size_t free() const { return free_.size(); }
  void add_free(Slot slot) { free_.push_back(slot); }
  void met(Slot slot) { last_slot_ = std::max(last_slot_, slot); }
  std::size_t reserve() const;
  bool has_space() const;
  /// New mail is refused, and the disk has no room for a further segment.
  bool starved() const { return allocation_failed_ && !has_space(); }
  /// Whether a replacement more than those promised finds room.
  bool may_promise() const { return promised_ < around_.options.reserve || free_.size() > reserve(); }
  void promise(std::uint64_t bytes) { promised_ += bytes; }
  void keep_promise(std::uint64_t bytes) { promised_ -= bytes; }
  /// Bytes of records that any segment holds at least: parts do not straddle segments.
  std::size_t per_segment() const;
  /// Bytes of records and index entries that a segment takes when no record is in parts.
  std::size_t segment_room() const;
  /// The slot of a segment that is to be made now; allocated() says how it went.
  std::optional<Slot> next_allocation();
  void allocated(Slot slot, bool failed);

  // --- slots ---
  /// Those written and not synced since: the parts that write and sync keep it.
  std::set<Slot>& dirty() { return dirty_; }
  DamagedSlots& damaged() { return damaged_; }
  const DamagedSlots& damaged() const { return damaged_; }

 private:
  Surroundings& around_;
  std::map<SegmentUse, Segment> segments_;
  std::deque<Slot> free_;        // allocated, ready
  std::vector<Slot> condemned_;  // free after the next save
  DamagedSlots damaged_;
  std::set<Slot> dirty_;
  Slot last_slot_ = 0;
  SegmentUse next_use_ = 1;
  SegmentUse first_use_ = 1;
  std::size_t reserve_segments_ = 0;  // the least reserve()
  std::size_t spare_segments_ = 0;    // wanted beyond the reserve
  std::uint64_t promised_ = 0;        // bytes that the replacements of open STARTs may take
  bool allocation_failed_ = false;
  SteadyTime allocation_retry_{};
};

}  // namespace pen::queue_log
