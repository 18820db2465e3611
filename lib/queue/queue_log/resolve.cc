// Recovery's decisions: what each record says about its message, and what becomes of the message.
#include <algorithm>

#include "lib/base/codec.h"
#include "lib/queue/queue_log/breakage.h"
#include "lib/queue/queue_log/recovery.h"
#include "lib/queue/queue_log/state.h"

namespace pen::queue_log {
namespace {

RecoveryState::Copy& copy_at(RecoveryState::Seen& seen, const Position& position, std::uint32_t generation) {
  for (auto& copy : seen.copies)
    if (copy.position == position) return copy;
  RecoveryState::Copy copy;
  copy.position = position;
  copy.generation = generation;
  seen.copies.push_back(copy);
  return seen.copies.back();
}

/// Every version up to this generation is done with. So is what an earlier process wrote: the version that ended
/// here had all its recipients, or goes on in a version of this epoch.
void finish_up_to(RecoveryState::Seen& seen, std::uint32_t generation, std::uint32_t epoch) {
  seen.finished = std::max(seen.finished.value_or(0), generation);
  seen.finished_epoch = std::max(seen.finished_epoch, epoch);
}

RecoveryState::Seen& seen_of(RecoveryState& r, const QueueLog::State& s, std::string_view queue_id) {
  return r.seen.of(queue_id, s.ids.accepted.key_of(queue_id).low);
}

}  // namespace

void take_record(RecoveryState& r, QueueLog::State& s, const LogReader& reader, LogId log) {
  const LogReader::Record& record = reader.record();
  auto bad = [&] { s.damage.note_malformed(record, log); };
  switch (record.type) {
    case RecordType::envelope: {
      auto view = decode<EnvelopeView>(as_text(record.body));
      if (!view || !well_formed(*view)) return bad();
      if (record.odd_mark)
        s.damage.note({log, s.pool.slot_of(record.position.use), record.position.use, record.position.offset, 4,
                       std::string(view->queue_id), "odd garbage mark, taken as live"},
                      false);
      const RecentIds::Key key = s.ids.accepted.key_of(view->queue_id);
      r.seen.prefetch(key.low);
      s.ids.accepted.prefetch(key);
      auto& seen = r.seen.of(view->queue_id, key.low);
      auto& copy = copy_at(seen, record.position, view->generation);
      copy.generation = view->generation;
      copy.epoch = record.epoch;
      copy.bytes = record.body.size();
      copy.garbage = record.garbage;
      copy.replaces = view->replaces;
      if (!record.garbage)
        for (auto use = record.position.use; use <= reader.at().use; ++use) ++r.live[use];
      s.ids.accepted.add(key, {0, record.position, view->arrived});
      return;
    }
    case RecordType::start: {
      auto body = decode<StartBody>(as_text(record.body));
      if (!body || body->queue_id.empty()) return bad();
      const RecentIds::Key key = s.ids.accepted.key_of(body->queue_id);
      auto& seen = r.seen.of(body->queue_id, key.low);
      auto& copy = copy_at(seen, body->envelope, body->generation);
      copy.started = true;
      if (copy.bytes == 0) copy.epoch = std::max(copy.epoch, record.epoch);
      copy.torn_start = r.torn_epoch == record.epoch;
      s.ids.accepted.add(key, {0, body->envelope});
      return;
    }
    case RecordType::delivery: {
      auto body = decode<DeliveryBody>(as_text(record.body));
      if (!body || body->queue_id.empty() || !body->ordinals.well_formed()) return bad();
      auto& seen = seen_of(r, s, body->queue_id);
      seen.newest_delivery = std::max(seen.newest_delivery, body->generation);
      seen.delivery_epoch = std::max(seen.delivery_epoch, record.epoch);
      seen.deliveries.push_back({std::move(body->ordinals), std::move(body->payload)});
      return;
    }
    case RecordType::finish: {
      auto body = decode<FinishBody>(as_text(record.body));
      if (!body || body->queue_id.empty()) return bad();
      finish_up_to(seen_of(r, s, body->queue_id), body->generation, record.epoch);
      return;
    }
    case RecordType::tombstone: {
      auto body = decode<TombstoneBody>(as_text(record.body));
      if (!body || body->queue_id.empty()) return bad();
      auto& seen = seen_of(r, s, body->queue_id);
      copy_at(seen, body->envelope, body->generation);
      if (!broken(Breakage::forget_tombstones)) finish_up_to(seen, body->generation, record.epoch);
      return;
    }
    case RecordType::index:
      return;
  }
}

/// nullopt: the envelope cannot be read there.
static Result<std::optional<EnvelopeBody>> read_envelope(QueueLog::State& s, const Position& position) {
  const Segment* segment = s.pool.find(position.use);
  if (segment == nullptr) return std::nullopt;
  LogReader reader(s.around.storage, s.logs[segment->log].segments(), position, Position{},
                   SegmentReader::Search::window);
  PEN_TRY_ASSIGN(const auto got, reader.next());
  if (got != LogReader::Got::record || reader.record().position != position ||
      reader.record().type != RecordType::envelope)
    return std::nullopt;
  auto body = decode<EnvelopeBody>(as_text(reader.record().body));
  if (!body || !well_formed(*decode<EnvelopeView>(as_text(reader.record().body)))) return std::nullopt;
  return body;
}

namespace {

/// How much of the journal before the working suffix a restart on a full disk looks through: bytes, segments.
constexpr std::size_t kLeftBehind = 32U << 20;
constexpr std::size_t kMaxLeftBehind = 8;
constexpr std::size_t kIndexEntry = 160;  // roughly, for one message in a footer

std::uint64_t cost_of(const RecoveryState::Copy& copy) { return record_size(copy.bytes) + kIndexEntry; }

bool begun_or_over(const RecoveryState::Seen& seen, const RecoveryState::Copy& copy) {
  return seen.begun(copy) || seen.over(copy);
}

using Leftovers = std::vector<std::pair<std::string, RecoveryState::Copy>>;

/// What waits in a journal segment that lies before the working suffix. There the marks are right, but for those with
/// their reason in the suffix. nullopt: not to be emptied, because it holds a part of a longer record, or damage.
Result<std::optional<Leftovers>> leftovers_of(const RecoveryState& r, const QueueLog::State& s,
                                              const SegmentHeader& header) {
  Leftovers waiting;
  SegmentReader reader(s.around.storage, header, kDataStart, SegmentReader::Search::whole);
  for (;;) {
    PEN_TRY_ASSIGN(const auto got, reader.next());
    if (got == SegmentReader::Got::end) break;
    if (got == SegmentReader::Got::more) continue;
    const RecordHeader& record = reader.header();
    const bool in_parts = (record.flags & (kFirstPart | kLastPart)) != (kFirstPart | kLastPart);
    if (got == SegmentReader::Got::hole || in_parts) return std::nullopt;
    if (record.type != RecordType::envelope) continue;
    const Position at{header.use, reader.offset()};
    if (at < s.runners[kJournal].at() || record.mark == garbage_mark(header, reader.offset())) continue;
    auto view = decode<EnvelopeView>(as_text(reader.body()));
    if (!view || !well_formed(*view)) return std::nullopt;
    RecoveryState::Copy copy;
    copy.position = at;
    copy.generation = view->generation;
    copy.epoch = record.epoch;
    copy.bytes = reader.body().size();
    copy.replaces = view->replaces;
    if (const auto* seen = r.seen.find(view->queue_id, s.ids.accepted.key_of(view->queue_id).low)) {
      for (const auto& known : seen->copies)
        if (known.position == at) copy.started = known.started;
      if (copy.started) continue;  // resolved in any case
      // An end or a delivery without its START: a write that a crash cut, which leaves this version where it is.
      if (begun_or_over(*seen, copy)) return std::nullopt;
    }
    waiting.emplace_back(view->queue_id, copy);
  }
  if (reader.unreadable()) return std::nullopt;
  return waiting;
}

}  // namespace

/// Each restart of a crash loop takes a segment, and leaves in it the few messages that it did not come to. On a full
/// disk the segments with the least in them are emptied into the fresh one, as many as it has room for, and go back
/// to the pool when recovery has settled: the restart takes one segment and gives one back.
Result<void> choose_segments_to_empty(RecoveryState& r, const QueueLog::State& s) {
  if (s.pool.has_space()) return {};
  std::map<SegmentUse, std::uint64_t> live;
  std::set<SegmentUse> fixed;  // a message in parts stays where it is
  std::uint64_t begun = 0;     // written anew in any case
  for (const auto* seen : r.seen.in_order())
    for (const auto& copy : seen->copies) {
      if (copy.bytes == 0 || copy.garbage) continue;
      if (begun_or_over(*seen, copy))
        begun += seen->over(copy) ? 0 : cost_of(copy);
      else if (copy.bytes > max_body(s.around.options.segment_size))
        fixed.insert(copy.position.use);
      else
        live[copy.position.use] += cost_of(copy);
    }
  std::vector<std::pair<std::uint64_t, SegmentUse>> candidates;
  for (const auto& [use, bytes] : live) {
    const Segment* segment = s.pool.find(use);
    if (segment == nullptr || fixed.contains(use) || !r.read_whole.contains(use)) continue;
    const LogId log = segment->log;
    // Out of a retry log a message is tried before its time: only for a segment that is nearly empty.
    if (log == kHold || (log != kJournal && bytes > s.pool.per_segment() / 4)) continue;
    candidates.emplace_back(bytes, use);
  }
  // Before the suffix, the newest first: there the last restarts left their segments.
  std::map<SegmentUse, Leftovers> before;
  const auto& uses = s.logs.journal().uses();
  std::size_t window = std::clamp<std::size_t>(kLeftBehind / s.around.options.segment_size, 2, kMaxLeftBehind);
  for (auto use = uses.rbegin(); use != uses.rend() && window > 0; ++use) {
    if (*use >= r.suffix.use || r.read_whole.contains(*use)) continue;
    --window;
    const Segment& segment = s.pool.in_use().at(*use);
    if (segment.pins != 0 || s.pool.damaged().contains(segment.header.slot)) continue;
    PEN_TRY_ASSIGN(auto waiting, leftovers_of(r, s, segment.header));
    if (!waiting) continue;
    std::uint64_t bytes = 0;
    for (const auto& [id, copy] : *waiting) bytes += cost_of(copy);
    candidates.emplace_back(bytes, *use);
    before.emplace(*use, *std::move(waiting));
  }
  std::sort(candidates.begin(), candidates.end());
  std::uint64_t room = s.pool.segment_room();
  room -= std::min(room, begun);
  for (const auto& [bytes, use] : candidates) {
    if (bytes > room) break;
    room -= bytes;
    r.emptied.insert(use);
    const auto found = before.find(use);
    if (found == before.end()) continue;
    r.read_whole[use] = true;
    for (auto& [id, copy] : found->second) {
      auto& known = copy_at(seen_of(r, s, id), copy.position, copy.generation);
      known = copy;
      ++r.live[use];
    }
  }
  return {};
}

namespace {

/// The words of many failures may be too long for a record beside the message: then the last of them go, and with
/// them the reports that they were kept for. The recipients stay out of the message.
Result<Position> put_replacement(QueueLog::State& s, EnvelopeBody& body) {
  std::size_t kept = body.results.size(), dropped = 0;
  for (;;) {
    auto at = s.logs.journal().put_envelope(view_of(body));
    if (!at && at.error().is(QueueLogError::too_large) && kept > 0) {
      for (const std::size_t half = kept / 2; kept > half; ++dropped) body.results[--kept].payload.clear();
      continue;
    }
    if (at && dropped > 0)
      s.damage.note({kJournal, s.pool.slot_of(at->use), at->use, at->offset, 0, body.queue_id,
                     std::to_string(dropped) + " results do not fit beside the message, nobody is told of them"},
                    false);
    return at;
  }
}

/// The version of a message that counts. nullptr: none.
struct Chosen {
  const RecoveryState::Copy* copy = nullptr;
  std::optional<EnvelopeBody> body;  // it is written anew: it was being worked on, or its segment is emptied
  bool worked_on = false;
};

/// The newest version, where two carry one generation the one that work was begun on.
Result<Chosen> choose_version(const RecoveryState& r, QueueLog::State& s, RecoveryState::Seen& seen) {
  auto& copies = seen.copies;
  std::sort(copies.begin(), copies.end(), [](const auto& a, const auto& b) {
    return std::tie(a.generation, a.started, a.epoch) > std::tie(b.generation, b.started, b.epoch);
  });
  if (broken(Breakage::older_version_wins)) std::reverse(copies.begin(), copies.end());
  Chosen chosen;
  bool lost = false;
  for (const auto& copy : copies) {
    if (seen.over(copy) || (copy.garbage && !copy.started)) continue;
    if (seen.begun(copy)) {
      PEN_TRY_ASSIGN(auto body, read_envelope(s, copy.position));
      if (!body || body->queue_id != seen.queue_id) {
        // Renewed in the very write that a crash cut: the version before it still counts, where it was.
        lost = lost || !copy.torn_start;
        continue;
      }
      chosen.body = std::move(body);
    }
    chosen.copy = &copy;
    break;
  }
  if (!chosen.copy && lost) {
    const Position& at = copies.front().position;
    const Segment* segment = s.pool.find(at.use);
    s.damage.note({segment != nullptr ? segment->log : kJournal, s.pool.slot_of(at.use), at.use, at.offset, 0,
                   std::string(seen.queue_id), "the envelope of a message being worked on is unreadable"});
  }
  chosen.worked_on = chosen.body.has_value();
  if (chosen.copy && !chosen.body && chosen.copy->bytes != 0 && r.emptied.contains(chosen.copy->position.use)) {
    PEN_TRY_ASSIGN(chosen.body, read_envelope(s, chosen.copy->position));
    if (chosen.body && chosen.body->queue_id != seen.queue_id) chosen.body.reset();
  }
  return chosen;
}

/// Writes the chosen version anew, without the recipients that deliveries are done with. no_space: nothing was done.
Result<Position> write_anew(QueueLog::State& s, const RecoveryState::Seen& seen, Chosen& chosen) {
  EnvelopeBody& body = *chosen.body;
  std::uint64_t deliveries = 0;
  for (const auto& delivery : seen.deliveries) {
    if (!chosen.worked_on || broken(Breakage::forget_deliveries)) break;
    OrdinalSet still = body.remaining;
    still.remove(delivery.ordinals);
    if (still == body.remaining) continue;
    body.remaining = std::move(still);
    body.results.push_back(delivery);
    ++deliveries;
  }
  body.generation = chosen.copy->generation + 1;
  body.appended = s.around.clock.wall_now();
  body.replaces = chosen.copy->position;
  body.interval = 0;
  PEN_TRY_ASSIGN(const Position replacement, put_replacement(s, body));
  s.report.deliveries += deliveries;
  s.fresh.add(replacement);
  ++(chosen.worked_on ? s.report.working : s.report.moved);
  return replacement;
}

void mark_garbage(QueueLog::State& s, const Position& position, const Position& because) {
  if (position.use == 0 || s.marks.dead(position) || !s.pool.in_use().contains(position.use)) return;
  s.marks.add(position, because);
}

/// Every other version is garbage; the one just replaced becomes garbage when its replacement is durable.
void drop_others(RecoveryState& r, QueueLog::State& s, RecoveryState::Seen& seen, const Chosen& chosen,
                 const Position& replacement) {
  for (auto& copy : seen.copies) {
    if (copy.replaces.use != 0) mark_garbage(s, copy.replaces, {});
    const bool best = &copy == chosen.copy;
    if (best && !chosen.body) continue;
    if (!best && !copy.garbage && !copy.started) ++s.report.stale_copies;
    const bool was_live = !copy.garbage && copy.bytes != 0;  // else it was not counted
    mark_garbage(s, copy.position, best ? replacement : Position{});
    copy.garbage = true;
    if (!was_live) continue;
    const auto live = r.live.find(copy.position.use);
    if (live != r.live.end() && --live->second == 0) r.live.erase(live);
  }
}

/// The message was accepted once more before this was read: its receiver had no answer from the process before. What is
/// known of the message here counts, finished or not, and is on disk; the new copy is garbage as soon as it is on disk
/// too. Until then a restart has to read it again: so it is its own reason.
void drop_sent_again(RecoveryState& r, QueueLog::State& s, const RecoveryState::Seen& seen, const Chosen& chosen) {
  const auto* again = s.ids.accepted.find(seen.queue_id);
  if (again == nullptr || (!chosen.copy && !seen.finished)) return;
  const Position fresh = again->position;
  const auto is_fresh = [&](const RecoveryState::Copy& c) { return c.position == fresh; };
  if (std::any_of(seen.copies.begin(), seen.copies.end(), is_fresh)) return;
  ++s.report.stale_copies;
  mark_garbage(s, fresh, fresh);
  s.fresh.start(fresh);
  r.sent_again = std::max(r.sent_again, fresh);
  // The version that counts is not to lose to it.
  if (chosen.copy && !chosen.body)
    s.ids.accepted.set(s.ids.accepted.key_of(seen.queue_id), {again->ticket, chosen.copy->position, again->arrived});
}

}  // namespace

Result<void> resolve_message(RecoveryState& r, QueueLog::State& s, RecoveryState::Seen& seen) {
  PEN_TRY_ASSIGN(Chosen chosen, choose_version(r, s, seen));
  Position replacement;
  if (chosen.body) {
    PEN_TRY_ASSIGN(replacement, write_anew(s, seen, chosen));
  }
  drop_others(r, s, seen, chosen, replacement);
  drop_sent_again(r, s, seen, chosen);
  if (chosen.body) {
    // An older version loses to this one if nothing here led to it.
    const auto key = s.ids.accepted.key_of(seen.queue_id);
    const auto* known = s.ids.accepted.find(key);
    RecentIds::Accepted now{0, replacement};
    if (known != nullptr) now = {known->ticket, replacement, known->arrived};
    s.ids.accepted.set(key, now);
  }
  return {};
}

}  // namespace pen::queue_log
