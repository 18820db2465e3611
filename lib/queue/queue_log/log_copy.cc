#include "lib/queue/queue_log/log_copy.h"

#include <algorithm>

#include "lib/queue/queue_log/segment_reader.h"

namespace pen::queue_log {
namespace {

constexpr std::size_t kPiece = 1U << 20;
constexpr std::size_t kListed = 10000;  // segments that positions name at most

MutableBytes as_writable(std::string& text) { return {reinterpret_cast<std::byte*>(text.data()), text.size()}; }

}  // namespace

Result<void> LogCopy::begin(LogEnds ends) {
  PEN_TRY_ASSIGN(const auto slots, source_.list());
  std::string both(2 * kPositionsCopy, '\0');
  const auto positions = std::ranges::find(slots, kPositionsSlot, &Storage::SlotInfo::slot);
  if (positions == slots.end() || !positions->usable || positions->size < both.size())
    return fail(QueueLogError::damaged, "positions");
  PEN_TRY(source_.read(kPositionsSlot, 0, as_writable(both)));
  std::optional<SavedPositions> best;
  for (std::size_t copy = 0; copy < 2; ++copy) {
    auto found = decode_positions(as_bytes(both).subspan(copy * kPositionsCopy, kPositionsCopy));
    if (found && (!best || found->sequence > best->sequence)) best = std::move(found);
  }
  if (!best) return fail(QueueLogError::damaged, "positions");
  saved_ = *std::move(best);
  PEN_TRY(target_.allocate(kPositionsSlot, positions->size));
  PEN_TRY(target_.write(kPositionsSlot, 0, as_bytes(both)));
  PEN_TRY_ASSIGN(first_, parts(ends));
  // A segment has gone though the queue's segments stay: somebody moved it away.
  for (const SavedSegment& segment : saved_.segments) {
    const auto has = [&](const LogEnds& all) {
      return std::ranges::any_of(all, [&](const LogEnd& end) { return end.durable.use >= segment.use; });
    };
    if (has(ends) && std::ranges::none_of(first_, [&](const Part& p) { return p.header.use == segment.use; }))
      return fail(QueueLogError::damaged, slot_name(segment.slot));
  }
  for (const Part& part : first_) total_ += part.to;
  return {};
}

Result<std::vector<LogCopy::Part>> LogCopy::parts(const LogEnds& ends) {
  std::vector<Part> found;
  const std::uint64_t last_listed = saved_.segments.size() < kListed
                                        ? saved_.next_use
                                        : std::ranges::max(saved_.segments, {}, &SavedSegment::use).use + 1;
  PEN_TRY_ASSIGN(const auto slots, source_.list());
  for (const auto& info : slots) {
    if (info.slot == kPositionsSlot || !info.usable || info.size < kDataStart) continue;
    std::string block(kDataStart, '\0');
    PEN_TRY(source_.read(info.slot, 0, as_writable(block)));
    const auto header = decode_segment_header(as_bytes(block));
    if (!header || header->slot != info.slot || header->size > info.size) continue;
    const bool listed = std::ranges::any_of(
        saved_.segments, [&](const SavedSegment& s) { return s.use == header->use && s.slot == info.slot; });
    if (!listed && header->use < last_listed) continue;  // free
    const auto end = std::ranges::find(ends, header->interval, &LogEnd::interval);
    if (end == ends.end() || header->use > end->durable.use) continue;
    const std::uint32_t to = header->use < end->durable.use ? header->size : end->durable.offset;
    if (to >= kDataStart) found.push_back({*header, std::min(to, header->size)});
  }
  std::ranges::sort(found, {}, [](const Part& p) { return p.header.use; });
  return found;
}

Result<void> LogCopy::copy(const SegmentHeader& header, std::uint32_t from, std::uint32_t to) {
  if (from == 0) PEN_TRY(target_.allocate(header.slot, header.size));
  while (from < to) {
    buffer_.resize(std::min<std::size_t>(to - from, kPiece));
    PEN_TRY(source_.read(header.slot, from, as_writable(buffer_)));
    PEN_TRY(target_.write(header.slot, from, as_bytes(buffer_)));
    from += static_cast<std::uint32_t>(buffer_.size());
    bytes_ += buffer_.size();
  }
  done_[header.use] = to;
  return {};
}

Result<bool> LogCopy::step(std::size_t budget) {
  const std::uint64_t until = bytes_ + budget;
  while (bytes_ < until && at_ < first_.size()) {
    const Part& part = first_[at_];
    const auto before = done_.find(part.header.use);
    const std::uint32_t from = before == done_.end() ? 0 : before->second;
    const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(part.to - from, until - bytes_));
    PEN_TRY(copy(part.header, from, from + most));
    if (from + most == part.to) ++at_;
  }
  return at_ < first_.size();
}

Result<void> LogCopy::clear_marks(const SegmentHeader& header, std::uint32_t from, std::uint32_t to) {
  SegmentReader reader(target_, header, from, SegmentReader::Search::whole, to);
  for (;;) {
    PEN_TRY_ASSIGN(const auto got, reader.next());
    if (got == SegmentReader::Got::end) return {};
    if (got == SegmentReader::Got::record && reader.header().mark != 0)
      PEN_TRY(target_.write(header.slot, reader.offset(), as_bytes(std::string_view("\0\0\0\0", 4))));
  }
}

Result<void> LogCopy::finish(const LogEnds& ends) {
  PEN_TRY_ASSIGN(const auto now, parts(ends));
  for (const Part& part : now) {
    const auto before = done_.find(part.header.use);
    const std::uint32_t from = before == done_.end() ? 0 : before->second;
    if (from >= part.to) continue;
    PEN_TRY(copy(part.header, from, part.to));
    PEN_TRY(clear_marks(part.header, std::max(from, kDataStart), part.to));
  }
  PEN_TRY_ASSIGN(const auto slots, target_.list());
  for (const auto& info : slots) PEN_TRY(target_.sync(info.slot));
  return {};
}

}  // namespace pen::queue_log
