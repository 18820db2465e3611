#include "lib/queue/queue_log/marks.h"

#include <algorithm>

#include "lib/queue/queue_log/breakage.h"

namespace pen::queue_log {

void GarbageMarks::add(const Position& envelope, const Position& because, bool worked_on) {
  dead_.insert(envelope);
  if (because.use != 0) {
    // The justifications rise, but for those of messages that were sent again while recovery read.
    auto at = marks_.end();
    while (at != marks_.begin() && std::prev(at)->because.use != 0 && because < std::prev(at)->because) --at;
    if (at - marks_.begin() < static_cast<std::ptrdiff_t>(ready_)) ++ready_;
    marks_.insert(at, {envelope, because, worked_on});
    return;
  }
  marks_.push_front({envelope, because});  // nothing to wait for
  ++ready_;
}

void GarbageMarks::closed(const Position& start) {
  const auto mark = std::lower_bound(marks_.begin(), marks_.end(), start,
                                     [](const PendingMark& m, const Position& at) { return m.because < at; });
  if (mark != marks_.end() && mark->because == start) mark->worked_on = false;
}

void GarbageMarks::drop(const std::set<SegmentUse>& uses) {
  if (uses.empty()) return;
  std::deque<PendingMark> kept;
  std::size_t ready = 0;
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    if (uses.contains(marks_[i].envelope.use)) {
      dead_.erase(marks_[i].envelope);
      continue;
    }
    if (i < ready_) ++ready;
    kept.push_back(marks_[i]);
  }
  marks_ = std::move(kept);
  ready_ = ready;
}

void GarbageMarks::drop(std::vector<PendingMark>& taken, const std::set<SegmentUse>& uses) {
  std::erase_if(taken, [&](const PendingMark& mark) {
    if (!uses.contains(mark.envelope.use)) return false;
    dead_.erase(mark.envelope);
    return true;
  });
}

void GarbageMarks::count_ready(const Position& durable) {
  while (ready_ < marks_.size() && (marks_[ready_].because < durable || broken(Breakage::mark_before_start))) ++ready_;
}

/// All that are ready, but those
/// - for the journal's open segment: by the time it is sealed and positions are saved most messages in it have ended,
///   and a segment that is given back needs no marks. (In another log's open segment they would hold the working
///   suffix back for as long as that segment takes to fill.)
/// - for messages being worked on: the open START holds the working suffix back as it is, and when it closes the
///   segment may be given back. (A mark makes a sector dirty: those of a full segment write it a second time.)
/// With too many in memory all go.
std::vector<PendingMark> GarbageMarks::take(SegmentUse filling) {
  const bool all = too_many();
  if (all) filling = 0;
  std::vector<PendingMark> taken;
  auto kept = marks_.begin();
  const auto last = marks_.begin() + static_cast<std::ptrdiff_t>(ready_);
  for (auto mark = marks_.begin(); mark != last; ++mark) {
    // Its own reason is a copy of a message that recovery knows: no later restart reads what it is a copy of.
    const bool copy = mark->because == mark->envelope && !broken(Breakage::settle_before_copies_are_marked);
    if (mark->because.use != 0 && !copy && (mark->envelope.use == filling || (mark->worked_on && !all)))
      *kept++ = *mark;
    else
      taken.push_back(*mark);
  }
  ready_ = static_cast<std::size_t>(kept - marks_.begin());
  marks_.erase(kept, last);
  return taken;
}

std::optional<Position> GarbageMarks::first_reason() const {
  const auto waits =
      std::find_if(marks_.begin(), marks_.end(), [](const PendingMark& m) { return m.because.use != 0; });
  return waits == marks_.end() ? std::nullopt : std::optional(waits->because);
}

}  // namespace pen::queue_log
