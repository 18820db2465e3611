#include "lib/queue/queue_log/stored.h"

#include "lib/base/codec.h"

namespace pen::queue_log {

Result<bool> StoredEnvelopes::garbage_on_disk(const Position& position) const {
  const SegmentHeader& segment = pool_.in_use().at(position.use).header;
  std::byte word[4];
  // A mark that cannot be read says nothing: a message twice is better than one lost.
  if (auto got = around_.storage.read(segment.slot, position.offset, word); !got) {
    if (got.error().is_errno(EIO)) return false;
    return std::unexpected(std::move(got).error());
  }
  return load_le<std::uint32_t>(word) == garbage_mark(segment, position.offset);
}

Result<bool> StoredEnvelopes::gone(const Position& position) const {
  if (marks_.dead(position) || !pool_.in_use().contains(position.use)) return true;
  return garbage_on_disk(position);
}

Stored StoredEnvelopes::stored(const Place& place, std::uint32_t record_epoch, EnvelopeBody body) const {
  const Log& log = logs_[place.log];
  Stored result;
  result.place = place;
  result.generation = body.generation;
  result.epoch = record_epoch;
  result.appended = body.appended;
  result.due = log.due(place.position, log.interval_of(body.interval), body.appended, around_.clock.wall_now());
  result.envelope = {
      std::move(body.queue_id), body.recipients,         std::move(body.remaining), body.arrived, body.size,
      std::move(body.sender),   std::move(body.domains), std::move(body.payload)};
  result.results = std::move(body.results);
  return result;
}

Result<Stored> StoredEnvelopes::read(const Place& place) const {
  const Segment* segment = pool_.find(place.position.use);
  if (segment == nullptr || segment->log != place.log) return fail(QueueLogError::not_found);
  const Log& log = logs_[place.log];
  if (place.position >= log.written_to) return fail(QueueLogError::not_found);
  // Mostly in one piece, and by itself; else, or where the disk does not give back what lies around it, part by part.
  PEN_TRY_ASSIGN(auto one, read_record(around_.storage, segment->header, place.position.offset));
  if (one && one->header.type == RecordType::envelope && one->header.flags == (kFirstPart | kLastPart)) {
    auto body = decode<EnvelopeBody>(as_text(one->body()));
    if (!body || !well_formed(view_of(*body))) return fail(QueueLogError::damaged);
    return stored(place, one->header.epoch, *std::move(body));
  }
  LogReader reader(around_.storage, log.segments(), place.position, log.written_to, SegmentReader::Search::whole);
  PEN_TRY_ASSIGN(const auto got, reader.next());
  if (got != LogReader::Got::record || reader.record().position != place.position ||
      reader.record().type != RecordType::envelope)
    return fail(QueueLogError::damaged);
  auto body = decode<EnvelopeBody>(as_text(reader.record().body));
  if (!body || !well_formed(view_of(*body))) return fail(QueueLogError::damaged);
  return stored(place, reader.record().epoch, *std::move(body));
}

}  // namespace pen::queue_log
