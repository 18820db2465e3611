// What is appended to a log: records, in parts where they are long, and the index that a segment ends with.
#include <algorithm>

#include "lib/base/check.h"
#include "lib/queue_log/state.h"

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

void QueueLog::State::flush_index(Log& log, bool sealed) {
  if (log.index.entries.count == 0 && !sealed) return;
  if (sealed) {
    // The filter in a record of its own: a look-up reads nothing else of the footer.
    flush_index(log, false);
    log.index.filter = log.filter.packed();
  }
  log.index.previous = log.last_index;
  log.last_index = log.cursor;
  log.index_chunks.push_back(log.cursor);
  const std::size_t start = begin_record(log.pending);
  encode_to(log.pending, log.index);
  end_piece(log, start, RecordType::index, kFirstPart | kLastPart | (sealed ? kSealed : 0));
  log.index.entries.count = 0;
  log.index.entries.text.clear();
  log.index.intervals.clear();
  log.index.filter.clear();
}

void QueueLog::State::add_index(Log& log, std::uint32_t offset, const EnvelopeView& body, bool in_parts) {
  const std::size_t room = max_index(options.segment_size);
  IndexEntryView entry = entry_of(offset, body, room);
  entry.flags = static_cast<std::uint8_t>((in_parts ? kInParts : 0) | (body.self_contained ? kSelfContained : 0));
  constexpr std::size_t kInterval = 5;  // bytes at most
  EncodedEntries& entries = log.index.entries;
  if (entries.text.size() + encoded_size(entry) + kInterval * (entries.count + 1) > room) flush_index(log, false);
  encode_to(entries.text, entry);
  ++entries.count;
  log.index.intervals.push_back(body.interval);
  log.filter.add(IdFilter::hash(body.queue_id));
}

/// The record that begins at `start` of what is pending has its body.
void QueueLog::State::end_piece(Log& log, std::size_t start, RecordType type, int flags) {
  const Segment& segment = segments.at(log.uses.back());
  RecordHeader header;
  header.use = segment.header.use;
  header.offset = log.cursor;
  header.durable = log.durable_offset;
  header.epoch = epoch;
  header.type = type;
  header.flags = static_cast<std::uint8_t>(flags);
  end_record(log.pending, start, header, segment.header.key);
  const auto size = static_cast<std::uint32_t>(log.pending.size() - start);
  log.cursor += size;
  PEN_CHECK(log.cursor <= options.segment_size - kTrailer);
  figures.appended_bytes += size;
  since_save += size;
}

/// A segment with room for a record, or a part, with that body. can_append() was asked.
void QueueLog::State::make_room(Log& log, std::size_t body) {
  if (!log.open || log.cursor + record_size(body) + index_room(options.segment_size) > options.segment_size)
    PEN_CHECK(roll(log).has_value());
}

Position QueueLog::State::put_parts(Log& log, RecordType type, Bytes body, const EnvelopeView* facts) {
  const std::size_t part = max_body(options.segment_size);
  Position first;
  for (std::size_t done = 0;;) {
    const Bytes piece = body.subspan(done, std::min(part, body.size() - done));
    make_room(log, piece.size());
    if (done == 0) first = {log.uses.back(), log.cursor};
    const bool last = done + piece.size() == body.size();
    const std::size_t start = begin_record(log.pending);
    log.pending.append(as_text(piece));
    end_piece(log, start, type, (done == 0 ? kFirstPart : 0) | (last ? kLastPart : 0));
    // The index of the segment where the record begins names it, wherever its other parts come to lie.
    if (done == 0 && facts != nullptr) add_index(log, first.offset, *facts, !last);
    done += piece.size();
    if (last) return first;
  }
}

Result<Position> QueueLog::State::put_envelope(Log& log, const EnvelopeView& body) {
  return put(log, RecordType::envelope, body, &body);
}

}  // namespace pen::queue_log
