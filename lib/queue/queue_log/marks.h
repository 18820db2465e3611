#pragma once
/// Garbage marks: which envelopes are garbage, and the marks that are still to be written over them. Private to
/// lib/queue/queue_log.
///
/// Use:     marks.add(envelope, start, true);            // garbage once the record at `start` is durable
///          if (marks.dead(envelope)) …                  // at once, and until the mark is on the disk
///          marks.count_ready(journal.durable_to);
///          for (auto& mark : marks.take(filling)) …     // to be written with this batch; then written()
/// Rules:   a mark waits until the record that justifies it is durable, and is dropped with its segment. Until it is
///          written a restart finds it again by that record: see first_reason().
/// Bounds:  kMarksInMemory ready ones, then they leave with any batch.
#include <cstddef>
#include <deque>
#include <optional>
#include <set>
#include <vector>

#include "lib/queue/queue_log/pool.h"
#include "lib/queue/queue_log/position_set.h"

namespace pen::queue_log {

/// More than a save's worth of small messages, because most marks need not be written at all: see take().
inline constexpr std::size_t kMarksInMemory = 65536;

/// An envelope that is garbage once the record at `because` (in the journal) is durable.
struct PendingMark {
  Position envelope;
  Position because;        // use 0: durable already
  bool worked_on = false;  // `because` is an open START
};

class GarbageMarks {
 public:
  explicit GarbageMarks(std::size_t expected) : dead_(expected) {}

  /// Started or removed, and the mark not yet written.
  bool dead(const Position& envelope) const { return dead_.contains(envelope); }
  void add(const Position& envelope, const Position& because, bool worked_on = false);
  /// The START at that position is not open any more.
  void closed(const Position& start);
  /// Forgets the marks that were to be written into segments that are given back.
  void drop(const std::set<SegmentUse>& uses);
  void drop(std::vector<PendingMark>& taken, const std::set<SegmentUse>& uses);

  void count_ready(const Position& durable);
  bool too_many() const { return ready_ >= kMarksInMemory; }
  /// The marks to write now. `filling`: the journal's open segment; 0: none.
  std::vector<PendingMark> take(SegmentUse filling);
  void written(const Position& envelope) { dead_.erase(envelope); }
  /// The first record that justifies a mark which is not yet taken.
  std::optional<Position> first_reason() const;

 private:
  PositionSet dead_;
  std::deque<PendingMark> marks_;  // by `because`, those with use 0 first: closed() searches it
  std::size_t ready_ = 0;          // of them, from the front, may be written
};

}  // namespace pen::queue_log
