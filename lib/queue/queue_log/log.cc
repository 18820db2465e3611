#include "lib/queue/queue_log/log.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/queue/queue_log/breakage.h"

namespace pen::queue_log {

Position Log::end() const {
  if (open_) return {uses_.back(), cursor_};
  return uses_.empty() ? Position{} : Position{uses_.back() + 1, 0};
}

// --- segments ---

SegmentSource Log::segments() const {
  return [this](SegmentUse from) -> std::optional<SegmentHeader> {
    const auto it = std::lower_bound(uses_.begin(), uses_.end(), from);
    if (it == uses_.end()) return std::nullopt;
    return pool_.in_use().at(*it).header;
  };
}

void Log::seal() {
  flush_index(true);
  const SegmentHeader& header = pool_.in_use().at(uses_.back()).header;
  left_.push_back({BatchStep::Kind::write, header.slot, taken_, std::move(pending_), false});
  left_.push_back(
      {BatchStep::Kind::write, header.slot, header.size - kTrailer, encode_trailer(header, last_index_), false});
  if (!broken(Breakage::seal_without_sync)) left_.push_back({BatchStep::Kind::sync, header.slot, 0, {}, false});
  pending_.clear();
  open_ = false;
}

Result<void> Log::roll() {
  if (pool_.free() == 0) return fail(QueueLogError::no_space);
  if (open_) seal();
  const auto oldest = uses_.empty() ? std::nullopt : std::optional(uses_.front());
  PEN_TRY_ASSIGN(const SegmentHeader header, pool_.take(id_, disk_interval_, oldest));
  uses_.push_back(header.use);
  open_ = true;
  pending_.append(encode_segment_header(header));
  cursor_ = kDataStart;
  taken_ = 0;
  durable_offset_ = 0;
  index_ = {};
  last_index_ = 0;
  index_chunks_.clear();
  filter_ = IdFilter(max_filter(around_.options.segment_size));
  around_.grown += kDataStart;
  return {};
}

void Log::reopen(std::uint32_t offset) {
  open_ = true;
  cursor_ = taken_ = durable_offset_ = offset;
}

// --- committing ---

std::uint64_t Log::gathered() const {
  std::uint64_t bytes = pending_.size();
  for (const BatchStep& step : left_) bytes += step.bytes.size();
  return bytes;
}

std::uint64_t Log::gathered_records() const { return gathered() - (taken_ == 0 && open_ ? kDataStart : 0); }

void Log::hand_over(bool even_a_header, std::vector<std::string>& buffers, std::vector<BatchStep>& steps) {
  for (BatchStep& step : left_) {
    if (step.kind == BatchStep::Kind::sync) {
      ++around_.figures.syncs;
      // Marks for a segment of the journal are written in another lane.
      if (id_ != kJournal) pool_.dirty().erase(step.slot);
    } else if (id_ != kJournal) {
      pool_.dirty().insert(step.slot);
    }
    steps.push_back(std::move(step));
  }
  left_.clear();
  if (pending_.empty() || (cursor_ == kDataStart && !even_a_header)) return;
  const Slot slot = pool_.slot_of(uses_.back());
  steps.push_back({BatchStep::Kind::write, slot, taken_, std::move(pending_), false});
  pending_ = buffers.empty() ? std::string() : std::move(buffers.back());
  if (!buffers.empty()) buffers.pop_back();
  taken_ = cursor_;
  if (id_ != kJournal) pool_.dirty().insert(slot);
}

std::optional<Slot> Log::slot_to_sync() const {
  if (!open_) return std::nullopt;
  const Slot slot = pool_.slot_of(uses_.back());
  const bool written = id_ == kJournal ? taken_ > durable_offset_ : pool_.dirty().contains(slot);
  return written ? std::optional(slot) : std::nullopt;
}

void Log::synced(const Position& to) {
  durable_to = to;
  if (filling(to.use)) durable_offset_ = to.offset;
}

// --- due times ---

seconds Log::interval_of(std::uint32_t recorded) const {
  return shared() ? seconds(recorded) : seconds(std::max<std::int64_t>(disk_interval_, 0));
}

WallTime Log::due(const Position& at, seconds interval, WallTime appended, WallTime now) const {
  if (at < due_before_) return std::min(now, appended + interval);
  // A version from the future tells that the clock was set back: it must not wait for the future to come again.
  if (appended > now) return now;
  return appended + interval;
}

void Log::make_due() {
  due_before_ = end();
  if (due_before_ > durable_to) sync_wanted = true;
}

}  // namespace pen::queue_log
