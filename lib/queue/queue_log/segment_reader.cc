#include "lib/queue/queue_log/segment_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace pen::queue_log {
namespace {
constexpr std::uint32_t kPage = 4096;
}

Result<std::optional<OneRecord>> read_record(Storage& storage, const SegmentHeader& segment, std::uint32_t offset,
                                             std::size_t guess) {
  const std::size_t end = segment.size - kTrailer;
  if (offset < kDataStart || offset % 8 != 0 || offset + kRecordHeader > end) return std::nullopt;
  OneRecord record;
  record.bytes.resize(std::min(std::max(guess, kRecordHeader), end - offset));
  auto at = [&](std::size_t from) {
    return MutableBytes{reinterpret_cast<std::byte*>(record.bytes.data()) + from, record.bytes.size() - from};
  };
  const auto unreadable = [](const Result<void>& got) { return !got && got.error().is_errno(EIO); };
  if (auto got = storage.read(segment.slot, offset, at(0)); unreadable(got))
    return std::nullopt;
  else
    PEN_TRY(got);
  const std::size_t have = record.bytes.size();
  const std::size_t whole = kRecordHeader + load_le<std::uint32_t>(at(0).data() + 4);
  if (whole > end - offset || whole - kRecordHeader > max_body(segment.size)) return std::nullopt;
  if (whole > have) {
    record.bytes.resize(whole);
    if (auto got = storage.read(segment.slot, offset + have, at(have)); unreadable(got))
      return std::nullopt;
    else
      PEN_TRY(got);
  }
  const auto header = decode_record(as_bytes(record.bytes), segment, offset);
  if (!header) return std::nullopt;
  record.header = *header;
  return record;
}

SegmentReader::SegmentReader(Storage& storage, const SegmentHeader& segment, std::uint32_t from, Search search,
                             std::uint32_t limit)
    : storage_(storage),
      segment_(segment),
      search_(search),
      limit_(segment.size - static_cast<std::uint32_t>(kTrailer)),
      at_((std::max(from, kDataStart) + 7) & ~7U),
      tail_(at_) {
  if (limit != 0) limit_ = std::min(limit, limit_);
}

Bytes SegmentReader::body() const {
  return as_bytes(buffer_).subspan(record_ - buffer_start_ + kRecordHeader, header_.length);
}

/// What cannot be read is filled with zeros and noted, page by page.
Result<void> SegmentReader::fill(std::uint64_t offset, MutableBytes into) {
  auto got = storage_.read(segment_.slot, offset, into);
  if (got || !got.error().is_errno(EIO)) return got;
  while (!into.empty()) {
    const std::size_t size = std::min<std::size_t>(into.size(), kPage - offset % kPage);
    auto page = storage_.read(segment_.slot, offset, into.first(size));
    if (!page && !page.error().is_errno(EIO)) return page;
    if (!page) {
      std::memset(into.data(), 0, size);
      bad_pages_.insert(static_cast<std::uint32_t>(offset / kPage));
    }
    into = into.subspan(size);
    offset += size;
  }
  return {};
}

/// Whether there are pages between the last record and `before` that could not be read; forgets them.
bool SegmentReader::take_bad(std::uint32_t before) {
  const auto end = bad_pages_.lower_bound((before + kPage - 1) / kPage);
  const bool any = end != bad_pages_.begin();
  bad_pages_.erase(bad_pages_.begin(), end);
  return any;
}

/// At least min(wanted, what is left before the limit) bytes from offset on.
Result<Bytes> SegmentReader::view(std::uint32_t offset, std::size_t wanted) {
  wanted = std::min<std::size_t>(wanted, limit_ - offset);
  if (offset < buffer_start_ || offset + wanted > buffer_start_ + buffer_.size()) {
    const std::size_t size = std::min<std::size_t>(std::max(wanted, ahead_), std::size_t{limit_} - offset);
    const bool steady = ahead_ == kChunk && wanted < kChunk;
    ahead_ = std::min(ahead_ * 2, kChunk);
    std::size_t kept = 0;
    if (offset >= buffer_start_ && offset < buffer_start_ + buffer_.size()) {
      kept = std::min(buffer_start_ + buffer_.size() - offset, size);
      std::memmove(buffer_.data(), buffer_.data() + (offset - buffer_start_), kept);
    }
    // Once a record larger than a chunk was read its memory is given back.
    if (size <= kChunk && buffer_.capacity() > 2 * kChunk) buffer_ = buffer_.substr(0, kept);
    // The size that is asked for and not the one that is passed, which libstdc++ 12 makes that of the memory.
    buffer_.resize_and_overwrite(size, [size](char*, std::size_t) { return size; });
    buffer_start_ = offset;
    MutableBytes rest{reinterpret_cast<std::byte*>(buffer_.data()) + kept, size - kept};
    if (auto got = fill(offset + kept, rest); !got) {
      buffer_.clear();
      return std::unexpected(std::move(got).error());
    }
    bytes_read_ += rest.size();
    // A reader of chunk after chunk need not wait for the disk, which brings the next one meanwhile.
    if (const std::uint32_t end = offset + static_cast<std::uint32_t>(size); steady && end < limit_)
      storage_.will_read(segment_.slot, end, std::min<std::uint64_t>(kChunk, limit_ - end));
  }
  return as_bytes(buffer_).subspan(offset - buffer_start_);
}

Result<SegmentReader::Got> SegmentReader::next() {
  if (record_waits_) {
    record_waits_ = false;
    return Got::record;
  }
  if (ended_) return Got::end;
  const std::uint32_t slice_end = static_cast<std::uint32_t>(std::min<std::size_t>(limit_, at_ + kChunk));
  const std::uint32_t window =
      std::max<std::uint32_t>(segment_.size / 4, std::min<std::uint32_t>(segment_.size, 9U << 20));
  while (at_ + kRecordHeader <= limit_) {
    if (search_ == Search::window && at_ - tail_ > window) break;
    PEN_TRY_ASSIGN(Bytes bytes, view(at_, kRecordHeader));
    // The cheap questions first: the hash is only worth it for bytes that claim this use and this place.
    const std::byte* p = bytes.data();
    const bool here = load_le<std::uint32_t>(p + 24) == at_;
    // One of both may be what was damaged. What an earlier process wrote before the segment was used again is neither.
    const auto use = load_le<std::uint64_t>(p + 16);
    const bool stale = use < segment_.use && load_le<std::uint32_t>(p + 32) < segment_.epoch;
    if (at_ == tail_ && (use == segment_.use || (here && !stale)))
      unfinished_ = std::min<std::uint32_t>(
          static_cast<std::uint32_t>(kRecordHeader) + std::min(load_le<std::uint32_t>(p + 4), segment_.size),
          limit_ - at_);
    if (here) {
      const std::uint32_t length = load_le<std::uint32_t>(p + 4);
      if (length <= max_body(segment_.size) && at_ + kRecordHeader + length <= limit_) {
        PEN_TRY_ASSIGN(Bytes whole, view(at_, kRecordHeader + length));
        if (auto header = decode_record(whole, segment_, at_)) {
          header_ = *header;
          record_ = at_;
          const bool hole = at_ != tail_;
          hole_start_ = tail_;
          hole_bytes_ = at_ - tail_;
          unreadable_ = take_bad(at_) && hole;
          unfinished_ = 0;
          at_ = tail_ = at_ + static_cast<std::uint32_t>(record_size(length));
          if (header_.type == RecordType::index && (header_.flags & kSealed) != 0) sealed_ = ended_ = true;
          record_waits_ = hole;
          return hole ? Got::hole : Got::record;
        }
      }
    }
    at_ += 8;
    if (at_ >= slice_end) return Got::more;
  }
  ended_ = true;
  unreadable_ = take_bad(limit_);
  return Got::end;
}

}  // namespace pen::queue_log
