// What is appended to a log: records, in parts where they are long, and the index that a segment ends with.
#include <algorithm>

#include "lib/base/check.h"
#include "lib/queue/queue_log/log.h"

namespace pen::queue_log {

namespace {
/// Cut to what fits in `room` bytes of an index record; a sender of RFC 5321's 320 characters fits any segment size.
IndexEntryView entry_of(std::uint32_t offset, const EnvelopeView& body, std::size_t room) {
  IndexEntryView e{offset,
                   body.queue_id,
                   body.generation,
                   body.appended,
                   body.arrived,
                   body.size,
                   body.remaining.count(),
                   body.sender,
                   {},
                   {}};
  std::size_t used = 64 + e.queue_id.size() + e.sender.size();
  if (used > room) {
    e.sender = e.sender.substr(0, 64);
    used = 64 + e.queue_id.size() + e.sender.size();
  }
  e.domains.reserve(body.domains.size());
  for (const auto& domain : body.domains) {
    if (used + domain.size() + 2 > room || e.domains.size() == kMaxDomains) break;
    used += domain.size() + 2;
    e.domains.push_back(domain);
  }
  return e;
}
}  // namespace

/// The caller's envelope as a body; it points into it.
EnvelopeView make_body(const Envelope& e, std::uint32_t generation, WallTime appended, const Position& replaces) {
  EnvelopeView body{generation, appended, replaces, e.queue_id, e.recipients, e.remaining,
                    e.arrived,  e.size,   e.sender, {},         {},           e.payload};
  body.self_contained = e.self_contained;
  body.domains.assign(e.domains.begin(),
                      e.domains.begin() + static_cast<std::ptrdiff_t>(std::min(e.domains.size(), kMaxDomains)));
  return body;
}

EnvelopeView view_of(const EnvelopeBody& b) {
  return {b.generation, b.appended,
          b.replaces,   b.queue_id,
          b.recipients, b.remaining,
          b.arrived,    b.size,
          b.sender,     std::vector<std::string_view>(b.domains.begin(), b.domains.end()),
          b.results,    b.payload,
          b.interval};
}

bool Log::can_append(std::size_t body) const {
  const std::size_t part = max_body(around_.options.segment_size);
  const std::size_t size = around_.options.segment_size;
  const std::size_t left =
      open_ ? size - std::min<std::size_t>(size, cursor_ + index_room(around_.options.segment_size)) : 0;
  if (record_size(body) <= left && body <= part) return true;
  const std::size_t total = body + (body / part + 1) * (kRecordHeader + 8);
  return pool_.free() >= total / pool_.per_segment() + 1;
}

void Log::flush_index(bool sealed) {
  if (index_.entries.count == 0 && !sealed) return;
  if (sealed) {
    // The filter in a record of its own: a look-up reads nothing else of the footer.
    flush_index(false);
    index_.filter = filter_.packed();
  }
  index_.previous = last_index_;
  last_index_ = cursor_;
  index_chunks_.push_back(cursor_);
  const std::size_t start = begin_record(pending_);
  encode_to(pending_, index_);
  end_piece(start, RecordType::index, kFirstPart | kLastPart | (sealed ? kSealed : 0));
  index_.entries.count = 0;
  index_.entries.text.clear();
  index_.intervals.clear();
  index_.filter.clear();
}

void Log::add_index(std::uint32_t offset, const EnvelopeView& body, bool in_parts) {
  const std::size_t room = max_index(around_.options.segment_size);
  IndexEntryView entry = entry_of(offset, body, room);
  entry.flags = static_cast<std::uint8_t>((in_parts ? kInParts : 0) | (body.self_contained ? kSelfContained : 0));
  constexpr std::size_t kInterval = 5;  // bytes at most
  EncodedEntries& entries = index_.entries;
  if (entries.text.size() + encoded_size(entry) + kInterval * (entries.count + 1) > room) flush_index(false);
  encode_to(entries.text, entry);
  ++entries.count;
  index_.intervals.push_back(body.interval);
  filter_.add(IdFilter::hash(body.queue_id));
}

/// The record that begins at `start` of what is pending has its body.
void Log::end_piece(std::size_t start, RecordType type, int flags) {
  const SegmentHeader& segment = pool_.in_use().at(uses_.back()).header;
  RecordHeader header;
  header.use = segment.use;
  header.offset = cursor_;
  header.durable = durable_offset_;
  header.epoch = around_.epoch;
  header.type = type;
  header.flags = static_cast<std::uint8_t>(flags);
  end_record(pending_, start, header, segment.key);
  const auto size = static_cast<std::uint32_t>(pending_.size() - start);
  cursor_ += size;
  PEN_CHECK(cursor_ <= around_.options.segment_size - kTrailer);
  around_.figures.appended_bytes += size;
  around_.grown += size;
}

/// A segment with room for a record, or a part, with that body. can_append() was asked.
void Log::make_room(std::size_t body) {
  if (!open_ || cursor_ + record_size(body) + index_room(around_.options.segment_size) > around_.options.segment_size)
    PEN_CHECK(roll().has_value());
}

Position Log::put_parts(RecordType type, Bytes body, const EnvelopeView* facts) {
  const std::size_t part = max_body(around_.options.segment_size);
  Position first;
  for (std::size_t done = 0;;) {
    const Bytes piece = body.subspan(done, std::min(part, body.size() - done));
    make_room(piece.size());
    if (done == 0) first = {uses_.back(), cursor_};
    const bool last = done + piece.size() == body.size();
    const std::size_t start = begin_record(pending_);
    pending_.append(as_text(piece));
    end_piece(start, type, (done == 0 ? kFirstPart : 0) | (last ? kLastPart : 0));
    // The index of the segment where the record begins names it, wherever its other parts come to lie.
    if (done == 0 && facts != nullptr) add_index(first.offset, *facts, !last);
    done += piece.size();
    if (last) return first;
  }
}

}  // namespace pen::queue_log
