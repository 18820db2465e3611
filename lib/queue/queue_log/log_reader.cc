#include "lib/queue/queue_log/log_reader.h"

#include <algorithm>

#include "lib/queue/queue_log/breakage.h"
#include "lib/queue/queue_log/queue_log.h"

namespace pen::queue_log {

LogReader::LogReader(Storage& storage, SegmentSource segments, Position from, Position limit,
                     SegmentReader::Search last)
    : storage_(storage),
      segments_(std::move(segments)),
      current_(segments_(from.use)),
      from_(from),
      limit_(limit),
      last_(last) {}

Position LogReader::at() const {
  if (reader_) return {reader_->segment().use, reader_->tail_start()};
  if (current_) return current_->use == from_.use ? from_ : Position{current_->use, kDataStart};
  return passed_ == 0 ? from_ : Position{passed_ + 1, 0};
}

Result<LogReader::Got> LogReader::next() {
  for (;;) {
    if (!reader_) {
      if (!current_) return Got::end;
      const SegmentHeader& segment = *current_;
      std::uint32_t limit = 0;
      if (limit_.use != 0 && segment.use >= limit_.use) {
        if (segment.use > limit_.use || limit_.offset <= kDataStart) {
          current_.reset();
          return Got::end;
        }
        limit = limit_.offset;
      }
      const bool last = !segments_(segment.use + 1);
      reader_ = std::make_unique<SegmentReader>(storage_, segment, segment.use == from_.use ? from_.offset : kDataStart,
                                                last ? last_ : SegmentReader::Search::whole, limit);
    }
    const auto before = reader_->bytes_read();
    PEN_TRY_ASSIGN(const auto got, reader_->next());
    bytes_read_ += reader_->bytes_read() - before;
    switch (got) {
      case SegmentReader::Got::more:
        return Got::more;
      case SegmentReader::Got::record:
        if (auto result = take_record()) return *result;
        break;
      case SegmentReader::Got::hole: {
        in_chain_ = false;
        hole_ = {reader_->segment(), reader_->hole_start(), reader_->hole_bytes(), false, reader_->unreadable()};
        hole_.damage = hole_.unreadable || left_by_sealing() || reader_->header().durable > hole_.offset ||
                       limit_.use == hole_.segment.use;
        return Got::hole;
      }
      case SegmentReader::Got::end: {
        const SegmentHeader segment = reader_->segment();
        const std::uint32_t tail = reader_->tail_start();
        // What follows the limit is not asked for, and may have been sealed since the limit was taken.
        const bool limited = limit_.use == segment.use;
        const std::uint32_t end = limited ? std::max(limit_.offset, tail) : segment.size;
        const bool unreadable = !reader_->sealed() && reader_->unreadable();
        const bool lost_end = unreadable || (!reader_->sealed() && (limited ? tail < end : left_by_sealing()));
        if (!lost_end && reader_->unfinished() != 0)
          unfinished_.push_back({{segment.use, tail}, reader_->unfinished()});
        if (!reader_->sealed()) in_chain_ = false;
        reader_.reset();
        passed_ = segment.use;
        current_ = segments_(segment.use + 1);
        if (lost_end) {
          hole_ = {segment, tail, end - tail, true, unreadable};
          return Got::hole;
        }
        break;
      }
    }
  }
}

/// A log leaves a segment by sealing and syncing it, or by a restart: the epoch of the next one says which.
bool LogReader::left_by_sealing() const {
  const auto next = segments_(current_->use + 1);
  return next && next->epoch == current_->epoch;
}

std::optional<LogReader::Got> LogReader::take_record() {
  const RecordHeader& header = reader_->header();
  if (header.type == RecordType::index) return std::nullopt;
  const bool first = (header.flags & kFirstPart) != 0;
  const bool last = (header.flags & kLastPart) != 0 || broken(Breakage::first_part_suffices);
  const Bytes body = reader_->body();
  if (first) {
    record_ = {{header.use, header.offset}, header.type, header.epoch, false, false, {}};
    record_.position.use = reader_->segment().use;
    if (header.mark != 0) {
      record_.garbage =
          header.mark == garbage_mark(reader_->segment(), header.offset) || broken(Breakage::odd_mark_is_garbage);
      record_.odd_mark = !record_.garbage;
    }
    if (last) {
      in_chain_ = false;
      record_.body = body;
      return Got::record;
    }
    in_chain_ = true;
    chain_.clear();
  }
  if (!in_chain_) return std::nullopt;  // parts of which the beginning is elsewhere or lost
  if (header.type != record_.type || chain_.size() + body.size() > kMaxChain) {
    in_chain_ = false;
    return std::nullopt;
  }
  chain_.append(as_text(body));
  if (!last) return std::nullopt;
  in_chain_ = false;
  record_.body = as_bytes(chain_);
  return Got::record;
}

}  // namespace pen::queue_log
