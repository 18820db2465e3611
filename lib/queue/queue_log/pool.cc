#include "lib/queue/queue_log/pool.h"

#include <algorithm>

#include "lib/queue/queue_log/breakage.h"

namespace pen::queue_log {

namespace {
constexpr auto kAllocationRetry = seconds(1);  // how soon a full disk is asked again
}

const Segment* SegmentPool::find(SegmentUse use) const {
  const auto segment = segments_.find(use);
  return segment == segments_.end() ? nullptr : &segment->second;
}

Slot SegmentPool::slot_of(SegmentUse use) const {
  const Segment* segment = find(use);
  return segment == nullptr ? Slot{0} : segment->header.slot;
}

bool SegmentPool::adopt(const SegmentHeader& header, LogId log) {
  return segments_.emplace(header.use, Segment{header, log, 0}).second;
}

Result<SegmentHeader> SegmentPool::take(LogId log, std::int64_t disk_interval, std::optional<SegmentUse> oldest) {
  if (free_.empty()) return fail(QueueLogError::no_space);
  SegmentHeader header;
  header.slot = free_.front();
  free_.pop_front();
  header.size = around_.options.segment_size;
  header.use = next_use_++;
  header.key = around_.random.next();
  header.epoch = around_.epoch;
  header.interval = disk_interval;
  header.oldest = oldest.value_or(header.use);
  segments_.emplace(header.use, Segment{header, log, 0});
  return header;
}

std::optional<Slot> SegmentPool::retire(SegmentUse use) {
  const auto segment = segments_.find(use);
  const Slot slot = segment->second.header.slot;
  segments_.erase(segment);
  dirty_.erase(slot);
  return damaged_.put_aside(slot) ? std::nullopt : std::optional(slot);
}

void SegmentPool::condemn(SegmentUse use) {
  const auto segment = segments_.find(use);
  condemned_.push_back(segment->second.header.slot);
  segments_.erase(segment);
}

std::vector<Slot> SegmentPool::retire_condemned() {
  std::vector<Slot> slots = std::exchange(condemned_, {});
  std::erase_if(slots, [this](Slot slot) { return damaged_.put_aside(slot); });
  return slots;
}

void SegmentPool::recycle(SegmentUse use) {
  const auto segment = segments_.find(use);
  free_.push_back(segment->second.header.slot);
  segments_.erase(segment);
}

// --- space ---

Result<void> SegmentPool::fill(std::size_t reserve, std::size_t spare) {
  reserve_segments_ = reserve;
  spare_segments_ = spare;
  // The journal takes one at once, and the first message that is deferred one for its retry log: mail is not refused
  // for the moment that it takes to make another.
  constexpr std::size_t kTakenSoon = 3;
  while (free_.size() < reserve_segments_ + kTakenSoon) {
    const Slot slot = last_slot_ + 1;
    if (auto made = around_.storage.allocate(slot, around_.options.segment_size); !made) {
      if (!made.error().is_errno(ENOSPC) && !made.error().is_errno(EDQUOT)) return made;
      allocation_failed_ = true;
      allocation_retry_ = around_.clock.now() + kAllocationRetry;
      break;
    }
    last_slot_ = slot;
    free_.push_back(slot);
  }
  return {};
}

std::size_t SegmentPool::reserve() const {
  if (promised_ <= around_.options.reserve) return reserve_segments_;
  const std::uint64_t more = promised_ - around_.options.reserve + per_segment() - 1;
  return reserve_segments_ + static_cast<std::size_t>(more / per_segment());
}

bool SegmentPool::has_space() const {
  if (broken(Breakage::take_the_reserve)) return !free_.empty();
  return free_.size() >= reserve();
}

std::size_t SegmentPool::per_segment() const {
  const std::uint32_t size = around_.options.segment_size;
  return size - kDataStart - index_room(size) - record_size(max_body(size));
}

std::size_t SegmentPool::segment_room() const {
  const std::uint32_t size = around_.options.segment_size;
  return size - kDataStart - index_room(size);
}

std::optional<Slot> SegmentPool::next_allocation() {
  if (free_.size() >= reserve() + spare_segments_) return std::nullopt;
  if (allocation_failed_ && around_.clock.now() < allocation_retry_) return std::nullopt;
  return ++last_slot_;
}

void SegmentPool::allocated(Slot slot, bool failed) {
  allocation_failed_ = failed;
  if (failed) {
    --last_slot_;  // slots are numbered without gaps
    allocation_retry_ = around_.clock.now() + kAllocationRetry;
  } else {
    free_.push_back(slot);
  }
}

}  // namespace pen::queue_log
