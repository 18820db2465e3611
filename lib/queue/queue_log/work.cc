// The calls that begin, go on with and end the work on a message.
#include "lib/base/check.h"
#include "lib/queue/queue_log/breakage.h"
#include "lib/queue/queue_log/state.h"

namespace pen::queue_log {

bool QueueLog::Work::may_begin() const { return state_->work.size() == 0 || state_->pool.may_promise(); }

/// A message may be in the logs twice: its receiver had no answer from a process that died, and did not ask the next
/// one, which began to read past it; or its drop file came back. The version that is being worked on counts. So does
/// what this process took, or began, before what an earlier one wrote: all recipients of that are, or were, in it
/// too. Returns the place of the record that says so; use 0: it is durable already.
std::optional<Position> QueueLog::State::outdone_by(std::string_view queue_id, std::uint32_t record_epoch) const {
  if (const Working* known = work.find(queue_id)) return known->start;
  if (record_epoch >= around.epoch) return std::nullopt;
  const RecentIds::Key key = ids.accepted.key_of(queue_id);
  for (const RecentIds* recent : {&ids.begun, &ids.accepted}) {
    const auto* known = recent->find(key);
    if (known != nullptr && known->position.use >= pool.first_use()) return known->position;
  }
  return std::nullopt;
}

void QueueLog::State::left(const Place& place) {
  if (place.log == kHold) {
    logs[kHold].thinned = true;
    ++logs[kHold].taken_out;
  }
  if (place.log == kJournal) fresh.start(place.position);
}

/// Returns where START is.
Result<Position> QueueLog::State::begin(std::string_view queue_id, const Place& place, std::uint64_t bytes,
                                        std::uint32_t generation, std::uint32_t record_epoch) {
  if (!pool.in_use().contains(place.position.use) || marks.dead(place.position) ||
      place.position >= logs[place.log].durable_to || work.on_its_way(queue_id, place.position))
    return fail(QueueLogError::not_found, std::string(queue_id));
  if (broken(Breakage::second_version_is_a_fault) && work.contains(queue_id))
    return fail(QueueLogError::not_found, std::string(queue_id));
  if (const auto other = outdone_by(queue_id, record_epoch)) {
    // Its mark waits for the other to be durable. Nothing on the disk leads from that to this: after a crash before the
    // mark was written it is met again.
    marks.add(place.position, *other);
    left(place);
    return fail(QueueLogError::superseded, std::string(queue_id));
  }
  const StartBody body{std::string(queue_id), generation, place.position};
  PEN_TRY_ASSIGN(const Position at, logs.journal().put(RecordType::start, body));
  work.open(queue_id, {generation, place, at, false, bytes});
  left(place);
  return at;
}

Result<void> QueueLog::Work::start(const Stored& message) {
  State& s = *state_;
  if (s.around.failed) return fail(QueueLogError::io_error);
  if (s.stage() != Recovery::done) return fail(QueueLogError::recovering);
  const EnvelopeView body = make_body(message.envelope, message.generation, message.appended, message.place.position);
  PEN_TRY_ASSIGN(const Position at, s.begin(message.envelope.queue_id, message.place, replacement_size(body),
                                            message.generation, message.epoch));
  s.ids.begun.set(s.ids.begun.key_of(message.envelope.queue_id), {0, at, message.envelope.arrived});
  return {};
}

Result<void> QueueLog::Work::start(std::string_view queue_id, const Place& place, std::uint64_t bytes,
                                   std::uint32_t generation) {
  State& s = *state_;
  if (s.around.failed) return fail(QueueLogError::io_error);
  if (s.stage() != Recovery::done) return fail(QueueLogError::recovering);
  auto begun = s.begin(queue_id, place, bytes, generation, s.around.epoch);
  if (!begun) return std::unexpected(std::move(begun).error());
  return {};
}

bool QueueLog::Work::working(std::string_view queue_id) const {
  const Working* known = state_->work.find(queue_id);
  return known != nullptr && !known->moving;
}
std::size_t QueueLog::Work::working_count() const { return state_->work.size(); }

Result<Ticket> QueueLog::Work::delivered(std::string_view queue_id, const OrdinalSet& ordinals,
                                         std::string_view payload) {
  State& s = *state_;
  PEN_TRY_ASSIGN(const auto work, s.work.entry(queue_id));
  const DeliveryBody body{work->first, work->second.generation, ordinals, std::string(payload)};
  PEN_TRY(s.logs.journal().put(RecordType::delivery, body));
  return s.lanes.next_ticket();
}

Result<void> QueueLog::Work::finish(std::string_view queue_id) {
  State& s = *state_;
  PEN_TRY_ASSIGN(const auto work, s.work.entry(queue_id));
  const FinishBody body{work->first, work->second.generation, false};
  PEN_TRY(s.logs.journal().put(RecordType::finish, body));
  s.work.close(work);
  return {};
}

Result<Position> QueueLog::State::replace(std::string_view queue_id, const Working& version, Log& into,
                                          const Envelope& replacement, seconds interval) {
  PEN_CHECK(replacement.queue_id == queue_id);
  EnvelopeView body =
      make_body(replacement, version.generation + 1, around.clock.wall_now(), version.envelope.position);
  body.interval = static_cast<std::uint32_t>(interval.count());
  return into.put_envelope(body);
}

Result<Place> QueueLog::Work::defer(std::string_view queue_id, LogId retry_log, const Envelope& replacement) {
  State& s = *state_;
  PEN_TRY_ASSIGN(const auto work, s.work.entry(queue_id));
  PEN_CHECK(retry_log >= kFirstRetry && retry_log < kFirstRetry + s.around.options.intervals.size());
  LogRunner& runner = s.runners[retry_log];
  PEN_TRY_ASSIGN(const Position at, s.replace(queue_id, work->second, runner.log(), replacement, runner.interval()));
  runner.wrote(at, s.around.clock.wall_now());
  s.work.move(work, runner.log(), at);
  if (broken(Breakage::moved_before_sync)) PEN_TRY(s.work.settle_moves(runner.log()));
  return Place{runner.log().id(), at};
}

Result<Ticket> QueueLog::Work::hold(std::string_view queue_id, const Envelope& replacement) {
  State& s = *state_;
  PEN_TRY_ASSIGN(const auto work, s.work.entry(queue_id));
  Log& log = s.logs[kHold];
  PEN_TRY_ASSIGN(const Position at, s.replace(queue_id, work->second, log, replacement));
  log.sync_wanted = true;
  s.work.move(work, log, at);
  return s.lanes.next_hold_ticket();
}

Result<Ticket> QueueLog::Work::release(std::string_view queue_id, const Envelope& replacement) {
  State& s = *state_;
  PEN_TRY_ASSIGN(const auto work, s.work.entry(queue_id));
  PEN_TRY_ASSIGN(const Position at, s.replace(queue_id, work->second, s.logs.journal(), replacement));
  // No FINISH: the higher generation says it, in the same log, and cannot survive a crash that it does not.
  s.fresh.add(at);
  s.work.close(work);
  return s.lanes.next_ticket();
}

Result<Place> QueueLog::Work::renew(std::string_view queue_id, const Envelope& replacement) {
  State& s = *state_;
  PEN_TRY_ASSIGN(const auto work, s.work.entry(queue_id));
  Log& journal = s.logs.journal();
  const Working& version = work->second;
  // Not before START is durable: else a crash could keep this version, lose both, and leave the one before them alive.
  if (version.start >= journal.durable_to && !broken(Breakage::renew_at_once)) return version.envelope;
  const EnvelopeView body =
      make_body(replacement, version.generation + 1, s.around.clock.wall_now(), version.envelope.position);
  const std::size_t size = encoded_size(body);
  if (!journal.can_append(size + 2 * kMaxQueueId + 256)) return fail(QueueLogError::no_space);  // both records or none
  s.work.renewed(size);
  PEN_TRY_ASSIGN(const Position envelope, journal.put_envelope(body));
  const StartBody start{work->first, body.generation, envelope};
  const auto at = journal.put(RecordType::start, start);
  PEN_CHECK(at.has_value());
  s.work.reopen(work, {body.generation, {kJournal, envelope}, *at, false, replacement_size(body)});
  return Place{kJournal, envelope};
}

Result<Ticket> QueueLog::Work::remove(std::string_view queue_id) {
  State& s = *state_;
  PEN_TRY_ASSIGN(const auto work, s.work.entry(queue_id));
  const TombstoneBody body{work->first, work->second.generation, work->second.envelope.position};
  PEN_TRY(s.logs.journal().put(RecordType::tombstone, body));
  s.work.close(work);
  return s.lanes.next_ticket();
}

Result<Ticket> QueueLog::Work::remove(const Place& place, std::string_view queue_id, std::uint32_t generation) {
  State& s = *state_;
  if (s.around.failed) return fail(QueueLogError::io_error);
  if (s.stage() != Recovery::done) return fail(QueueLogError::recovering);
  if (!s.pool.in_use().contains(place.position.use) || s.work.contains(queue_id) ||
      place.position >= s.logs[place.log].durable_to)
    return fail(QueueLogError::not_found, std::string(queue_id));
  PEN_TRY_ASSIGN(const bool gone, s.envelopes.gone(place.position));
  if (gone) return fail(QueueLogError::not_found, std::string(queue_id));
  const TombstoneBody body{std::string(queue_id), generation, place.position};
  PEN_TRY_ASSIGN(const Position at, s.logs.journal().put(RecordType::tombstone, body));
  s.marks.add(place.position, at);
  s.left(place);
  return s.lanes.next_ticket();
}

std::optional<std::string> QueueLog::Work::stale() { return state_->work.stale(); }

}  // namespace pen::queue_log
