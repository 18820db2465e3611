// Runners, and work on messages: from START to FINISH.
#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/codec.h"
#include "lib/queue_log/breakage.h"
#include "lib/queue_log/state.h"

namespace pen::queue_log {

namespace {
constexpr int kRunnerSlice = 256;  // records a runner looks at in one call: tens of microseconds
// The working suffix may be this many times what renewing all messages being worked on would write. Less, and renewing
// would take more of what is written than mail does; at 1 it would never end.
constexpr std::uint64_t kSuffixShare = 3;

/// It is noted and passed over; any other error is the disk's.
bool is_gone(const Error& e) { return e.is(QueueLogError::damaged) || e.is(QueueLogError::not_found); }
}  // namespace

SegmentSource QueueLog::State::segments_of(const Log& log) const {
  return [this, id = log.id](SegmentUse from) -> std::optional<SegmentHeader> {
    const auto& uses = logs[id].uses;
    const auto it = std::lower_bound(uses.begin(), uses.end(), from);
    if (it == uses.end()) return std::nullopt;
    return segments.at(*it).header;
  };
}

Result<bool> QueueLog::State::garbage_on_disk(const Position& position) {
  const SegmentHeader& segment = segments.at(position.use).header;
  std::byte word[4];
  // A mark that cannot be read says nothing: a message twice is better than one lost.
  if (auto got = storage.read(segment.slot, position.offset, word); !got) {
    if (got.error().is_errno(EIO)) return false;
    return std::unexpected(std::move(got).error());
  }
  return load_le<std::uint32_t>(word) == garbage_mark(segment, position.offset);
}

seconds QueueLog::State::interval_of(const Log& log, std::uint32_t recorded) const {
  return log.shared() ? seconds(recorded) : seconds(std::max<std::int64_t>(log.disk_interval, 0));
}

WallTime QueueLog::State::due(const Log& log, const Position& at, seconds interval, WallTime appended,
                              WallTime now) const {
  if (at < log.due_before) return std::min(now, appended + interval);
  // A version from the future tells that the clock was set back: it must not wait for the future to come again.
  if (appended > now) return now;
  return appended + interval;
}

Stored QueueLog::State::stored(const Place& place, std::uint32_t record_epoch, EnvelopeBody body) const {
  Stored result;
  result.place = place;
  result.generation = body.generation;
  result.epoch = record_epoch;
  result.appended = body.appended;
  result.due = due(logs[place.log], place.position, interval_of(logs[place.log], body.interval), body.appended,
                   clock.wall_now());
  result.envelope = {
      std::move(body.queue_id), body.recipients,         std::move(body.remaining), body.arrived, body.size,
      std::move(body.sender),   std::move(body.domains), std::move(body.payload)};
  result.results = std::move(body.results);
  return result;
}

Result<Stored> QueueLog::State::read(const Place& place) {
  const auto segment = segments.find(place.position.use);
  if (segment == segments.end() || segment->second.log != place.log) return fail(QueueLogError::not_found);
  const Log& log = logs[place.log];
  if (place.position >= log.written_to) return fail(QueueLogError::not_found);
  // Mostly in one piece, and by itself; else, or where the disk does not give back what lies around it, part by part.
  PEN_TRY_ASSIGN(auto one, read_record(storage, segment->second.header, place.position.offset));
  if (one && one->header.type == RecordType::envelope && one->header.flags == (kFirstPart | kLastPart)) {
    auto body = decode<EnvelopeBody>(as_text(one->body()));
    if (!body || !well_formed(view_of(*body))) return fail(QueueLogError::damaged);
    return stored(place, one->header.epoch, *std::move(body));
  }
  LogReader reader(storage, segments_of(log), place.position, log.written_to, SegmentReader::Search::whole);
  PEN_TRY_ASSIGN(const auto got, reader.next());
  if (got != LogReader::Got::record || reader.record().position != place.position ||
      reader.record().type != RecordType::envelope)
    return fail(QueueLogError::damaged);
  auto body = decode<EnvelopeBody>(as_text(reader.record().body));
  if (!body || !well_formed(view_of(*body))) return fail(QueueLogError::damaged);
  return stored(place, reader.record().epoch, *std::move(body));
}

Result<Stored> QueueLog::read(const Place& place) {
  State& s = *state_;
  if (place.log >= s.logs.size() || !s.segments.contains(place.position.use)) return fail(QueueLogError::not_found);
  auto read = s.read(place);
  if (!read && read.error().is(QueueLogError::damaged)) s.note_lost(place);
  PEN_TRY_ASSIGN(Stored stored, std::move(read));
  const auto work = s.working.find(stored.envelope.queue_id);
  if (work != s.working.end() && work->second.envelope == place) return stored;
  if (s.dead.contains(place.position)) return fail(QueueLogError::not_found);
  PEN_TRY_ASSIGN(const bool garbage, s.garbage_on_disk(place.position));
  if (garbage) return fail(QueueLogError::not_found);
  return stored;
}

bool QueueLog::durable(const Place& place) const {
  return place.log < state_->logs.size() && place.position < state_->logs[place.log].durable_to;
}

std::size_t QueueLog::log_count() const { return state_->runners.size(); }
seconds QueueLog::interval(LogId log) const { return state_->runners.at(log).interval; }

void QueueLog::make_due() {
  State& s = *state_;
  for (Log& log : s.logs) {
    if (log.id < kFirstRetry) continue;
    log.due_before = log.end();
    if (log.due_before > log.durable_to) log.sync_wanted = true;
  }
  for (Runner& runner : s.runners)
    if (runner.log >= kFirstRetry && runner.head) runner.head_due = std::min(runner.head_due, s.clock.wall_now());
}

LogId QueueLog::retry_log_for(seconds delay) const {
  const auto& intervals = state_->options.intervals;
  const auto it = std::lower_bound(intervals.begin(), intervals.end(), delay);
  const auto index = it == intervals.end() ? intervals.size() - 1 : static_cast<std::size_t>(it - intervals.begin());
  return static_cast<LogId>(kFirstRetry + index);
}

Result<QueueLog::Due> QueueLog::next_due(LogId id, WallTime now) {
  if (failed_) return fail(QueueLogError::io_error);
  if (recovery_ != Recovery::done) return fail(QueueLogError::recovering);
  State& s = *state_;
  PEN_CHECK(id < s.runners.size() && id != kHold);
  Runner& runner = s.runners[id];
  Log& log = s.logs[runner.log];
  if (s.hold_changed) PEN_TRY(s.sweep_hold());
  auto broke = [this](Error error) {
    failed_ = true;
    return fail(QueueLogError::io_error, error.message(), error.sys_errno());
  };
  auto gone = [&](const Position& at) -> Result<bool> {
    if (s.dead.contains(at) || !s.segments.contains(at.use)) return true;
    return s.garbage_on_disk(at);
  };

  if (runner.head) {
    auto dead = gone(*runner.head);
    if (!dead) return broke(std::move(dead).error());
    if (!*dead) {
      if (runner.head_due > now) {
        // The head's time was computed when the clock showed something else: never wait longer than
        // the interval.
        runner.head_due = std::min(runner.head_due, now + runner.interval);
        return Due{{}, runner.head_due, false};
      }
      auto stored = s.read({runner.log, *runner.head});
      if (stored) return Due{*std::move(stored), {}, false};
      if (!is_gone(stored.error())) return broke(std::move(stored).error());
      s.note_lost({log.id, *runner.head});
    }
    if (runner.reader) runner.at = std::max(runner.at, runner.reader->at());
    runner.head.reset();
  }

  for (int looked = 0; looked < kRunnerSlice;) {
    if (id == kJournal && runner.at >= s.scan_end) {
      runner.reader.reset();
      while (!s.fresh.empty() && s.fresh.front().started) s.fresh.pop_front();
      if (!s.fresh.empty()) {
        const Position at = s.fresh.front().position;
        if (at >= log.durable_to) return Due{};
        auto stored = s.read({kJournal, at});
        if (stored) return Due{*std::move(stored), {}, false};
        if (!is_gone(stored.error())) return broke(std::move(stored).error());
        s.note_lost({log.id, at});
        s.fresh.pop_front();
        continue;
      }
      if (!s.fresh_lost) return Due{};
      runner.at = *s.fresh_lost;
      s.fresh_lost.reset();
      s.scan_end = log.end();
    }
    const Position limit = id == kJournal ? std::min(s.scan_end, log.durable_to) : log.durable_to;
    if (runner.at >= limit) {
      if (id == kJournal || runner.last.use == 0 || runner.last < log.durable_to) return Due{};
      const WallTime due =
          runner.first_unsynced ? s.due(log, log.durable_to, runner.interval, *runner.first_unsynced, now) : now;
      if (due <= now && !s.syncing(log, runner.last)) log.sync_wanted = true;
      return Due{{}, due, false};
    }
    if (!runner.reader) {
      runner.reader_limit = limit;
      runner.reader =
          std::make_unique<LogReader>(s.storage, s.segments_of(log), runner.at, limit, SegmentReader::Search::whole);
    }
    auto got = runner.reader->next();
    if (!got) return broke(std::move(got).error());
    ++looked;
    switch (*got) {
      case LogReader::Got::more:
        looked += kRunnerSlice / 16;
        continue;
      case LogReader::Got::end:
        s.note_unfinished(*runner.reader);
        runner.reader.reset();
        runner.at = runner.reader_limit;  // what was synced since is read next
        continue;
      case LogReader::Got::hole:
        s.note_hole(runner.reader->hole(), log.id);
        continue;
      case LogReader::Got::record:
        break;
    }
    const LogReader::Record& record = runner.reader->record();
    if (record.type != RecordType::envelope || record.garbage) {
      runner.at = runner.reader->at();
      continue;
    }
    if (log.shared()) {
      const auto view = decode<EnvelopeView>(as_text(record.body));
      if (view && !runner.owns(seconds(view->interval))) {
        runner.at = runner.reader->at();
        continue;
      }
    }
    auto dead = gone(record.position);
    if (!dead) return broke(std::move(dead).error());
    auto body = *dead ? std::nullopt : decode<EnvelopeBody>(as_text(record.body));
    if (body && !well_formed(view_of(*body))) body.reset();
    if (!*dead && !body)
      s.note({log.id,
              s.segments.at(record.position.use).header.slot,
              record.position.use,
              record.position.offset,
              record.body.size(),
              {},
              "record body is malformed"});
    if (!body) {
      runner.at = runner.reader->at();
      continue;
    }
    runner.at = record.position;
    runner.head = record.position;
    runner.head_due = s.due(log, record.position, s.interval_of(log, body->interval), body->appended, now);
    if (runner.head_due > now) return Due{{}, runner.head_due, false};
    return Due{s.stored({log.id, record.position}, record.epoch, *std::move(body)), {}, false};
  }
  return Due{{}, {}, true};
}

// --- working on a message ---

void QueueLog::State::mark_later(const Position& envelope, const Position& because, bool worked_on) {
  dead.insert(envelope);
  if (because.use != 0) {
    // The justifications rise, but for those of messages that were sent again while recovery read.
    auto at = marks.end();
    while (at != marks.begin() && std::prev(at)->because.use != 0 && because < std::prev(at)->because) --at;
    if (at - marks.begin() < static_cast<std::ptrdiff_t>(ready_marks)) ++ready_marks;
    marks.insert(at, {envelope, because, worked_on});
    return;
  }
  marks.push_front({envelope, because});  // nothing to wait for
  ++ready_marks;
}

/// Forgets the marks that were to be written into segments that are given back.
void QueueLog::State::drop_marks(const std::set<SegmentUse>& uses) {
  if (uses.empty()) return;
  std::deque<PendingMark> kept;
  std::size_t ready = 0;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (uses.contains(marks[i].envelope.use)) {
      dead.erase(marks[i].envelope);
      continue;
    }
    if (i < ready_marks) ++ready;
    kept.push_back(marks[i]);
  }
  marks = std::move(kept);
  ready_marks = ready;
}

void QueueLog::State::close_start(const Working& work) {
  starts.erase(work.start);
  begun_bytes -= work.bytes;
  const auto mark = std::lower_bound(marks.begin(), marks.end(), work.start,
                                     [](const PendingMark& m, const Position& start) { return m.because < start; });
  if (mark != marks.end() && mark->because == work.start) mark->worked_on = false;
  if (!broken(Breakage::unpinned_envelope)) --segments.at(work.envelope.position.use).pins;
}

void QueueLog::State::pass_fresh(const Position& started) {
  const auto it = std::lower_bound(fresh.begin(), fresh.end(), started,
                                   [](const Fresh& f, const Position& p) { return f.position < p; });
  if (it != fresh.end() && it->position == started) it->started = true;
  while (!fresh.empty() && fresh.front().started) fresh.pop_front();
}

/// The version that is being worked on, or its replacement, whose log was not synced yet when FINISH was to be
/// appended.
bool QueueLog::State::on_its_way(std::string_view queue_id, const Position& version) const {
  const auto work = working.find(queue_id);
  if (work == working.end()) return false;
  if (work->second.envelope.position == version) return true;
  return work->second.moving && std::ranges::any_of(logs, [&](const Log& log) {
           return std::ranges::any_of(
               log.moving, [&](const Moving& m) { return m.replacement == version && m.queue_id == queue_id; });
         });
}

/// A message may be in the logs twice: its receiver had no answer from a process that died, nor asked the next one,
/// whose restart positions passed it; or its drop file came back. The version that is being worked on counts. So does
/// what this process took, or began, before what an earlier one wrote: all recipients of that are, or were, in it
/// too. Returns where the record lies that says so; use 0: it is durable already.
std::optional<Position> QueueLog::State::outdone_by(std::string_view queue_id, std::uint32_t record_epoch) const {
  if (const auto work = working.find(queue_id); work != working.end()) return work->second.start;
  if (record_epoch >= epoch) return std::nullopt;
  const RecentIds::Key key = accepted.key_of(queue_id);
  for (const RecentIds* ids : {&begun, &accepted}) {
    const auto* known = ids->find(key);
    if (known != nullptr && known->position.use >= first_use) return known->position;
  }
  return std::nullopt;
}

/// Returns where START is.
Result<Position> QueueLog::State::begin(std::string_view queue_id, const Place& place, std::uint64_t bytes,
                                        std::uint32_t generation, std::uint32_t record_epoch) {
  const auto segment = segments.find(place.position.use);
  if (segment == segments.end() || dead.contains(place.position) || place.position >= logs[place.log].durable_to ||
      on_its_way(queue_id, place.position))
    return fail(QueueLogError::not_found, std::string(queue_id));
  if (broken(Breakage::second_version_is_a_fault) && working.contains(queue_id))
    return fail(QueueLogError::not_found, std::string(queue_id));
  const auto left = [&] {
    if (place.log == kHold) hold_changed = true;
    if (place.log == kJournal) pass_fresh(place.position);
  };
  if (const auto other = outdone_by(queue_id, record_epoch)) {
    // Its mark waits for the other to be durable. Nothing on the disk leads from that to this: after a crash before the
    // mark was written it is met again.
    mark_later(place.position, *other);
    left();
    return fail(QueueLogError::superseded, std::string(queue_id));
  }
  const StartBody body{std::string(queue_id), generation, place.position};
  PEN_TRY_ASSIGN(const Position at, put(logs[kJournal], RecordType::start, body));
  working.emplace(body.queue_id, Working{generation, place, at, false, bytes});
  starts.emplace(at, body.queue_id);
  begun_bytes += bytes;
  if (!broken(Breakage::unpinned_envelope)) ++segment->second.pins;
  mark_later(place.position, at, true);
  left();
  return at;
}

Result<void> QueueLog::start(const Stored& message) {
  if (failed_) return fail(QueueLogError::io_error);
  if (recovery_ != Recovery::done) return fail(QueueLogError::recovering);
  State& s = *state_;
  const EnvelopeView body = make_body(message.envelope, message.generation, message.appended, message.place.position);
  PEN_TRY_ASSIGN(const Position at, s.begin(message.envelope.queue_id, message.place, replacement_size(body),
                                            message.generation, message.epoch));
  s.begun.set(s.begun.key_of(message.envelope.queue_id), {0, at});
  return {};
}

Result<void> QueueLog::start(std::string_view queue_id, const Place& place, std::uint64_t bytes,
                             std::uint32_t generation) {
  if (failed_) return fail(QueueLogError::io_error);
  if (recovery_ != Recovery::done) return fail(QueueLogError::recovering);
  auto begun = state_->begin(queue_id, place, bytes, generation, state_->epoch);
  if (!begun) return std::unexpected(std::move(begun).error());
  return {};
}

bool QueueLog::working(std::string_view queue_id) const {
  const auto it = state_->working.find(queue_id);
  return it != state_->working.end() && !it->second.moving;
}
std::size_t QueueLog::working_count() const { return state_->working.size(); }

namespace {
/// What every call that goes on with, or ends, the work on a message begins with.
template <class Map>
Result<typename Map::iterator> find_work(Map& working, std::string_view queue_id, bool failed) {
  if (failed) return fail(QueueLogError::io_error);
  const auto it = working.find(queue_id);
  if (it == working.end() || it->second.moving) return fail(QueueLogError::not_found, std::string(queue_id));
  return it;
}
}  // namespace

Result<Ticket> QueueLog::delivered(std::string_view queue_id, const OrdinalSet& ordinals, std::string_view payload) {
  State& s = *state_;
  PEN_TRY_ASSIGN(const auto work, find_work(s.working, queue_id, failed_));
  const DeliveryBody body{work->first, work->second.generation, ordinals, std::string(payload)};
  PEN_TRY(s.put(s.logs[kJournal], RecordType::delivery, body));
  return ++s.last_ticket;
}

Result<void> QueueLog::finish(std::string_view queue_id) {
  State& s = *state_;
  PEN_TRY_ASSIGN(const auto work, find_work(s.working, queue_id, failed_));
  const FinishBody body{work->first, work->second.generation, false};
  PEN_TRY(s.put(s.logs[kJournal], RecordType::finish, body));
  s.close_start(work->second);
  s.working.erase(work);
  return {};
}

Result<Position> QueueLog::State::replace(std::string_view queue_id, const Working& work, Log& into,
                                          const Envelope& replacement, seconds interval) {
  PEN_CHECK(replacement.queue_id == queue_id);
  EnvelopeView body = make_body(replacement, work.generation + 1, clock.wall_now(), work.envelope.position);
  body.interval = static_cast<std::uint32_t>(interval.count());
  return put_envelope(into, body);
}

Result<void> QueueLog::defer(std::string_view queue_id, LogId retry_log, const Envelope& replacement) {
  State& s = *state_;
  PEN_TRY_ASSIGN(const auto work, find_work(s.working, queue_id, failed_));
  PEN_CHECK(retry_log >= kFirstRetry && retry_log < kFirstRetry + s.options.intervals.size());
  Runner& runner = s.runners[retry_log];
  Log& log = s.logs[runner.log];
  PEN_TRY_ASSIGN(const Position at, s.replace(queue_id, work->second, log, replacement, runner.interval));
  runner.last = at;
  if (!runner.first_unsynced) runner.first_unsynced = s.clock.wall_now();
  work->second.moving = true;
  log.moving.push_back({work->first, at});
  if (broken(Breakage::moved_before_sync)) return s.settle_moves(log);
  return {};
}

Result<Ticket> QueueLog::hold(std::string_view queue_id, const Envelope& replacement) {
  State& s = *state_;
  PEN_TRY_ASSIGN(const auto work, find_work(s.working, queue_id, failed_));
  Log& log = s.logs[kHold];
  PEN_TRY_ASSIGN(const Position at, s.replace(queue_id, work->second, log, replacement));
  log.sync_wanted = true;
  work->second.moving = true;
  log.moving.push_back({work->first, at});
  return s.last_hold = ++s.last_ticket;
}

/// For every replacement that is durable now FINISH (moved), or the garbage mark of the version before it.
Result<void> QueueLog::State::settle_moves(Log& log) {
  while (!log.moving.empty() &&
         (log.moving.front().replacement < log.durable_to || broken(Breakage::moved_before_sync))) {
    const auto work = working.find(log.moving.front().queue_id);
    PEN_CHECK(work != working.end());
    if (work->second.start.use == 0) {
      mark_later(work->second.envelope.position, {});  // compact_held()
      hold_changed = true;
    } else {
      const FinishBody body{work->first, work->second.generation, true};
      const auto at = put(logs[kJournal], RecordType::finish, body);
      if (!at) {
        if (at.error().is(QueueLogError::no_space)) return {};  // the START stays open; tried again later
        return std::unexpected(at.error());
      }
    }
    close_start(work->second);
    working.erase(work);
    log.moving.pop_front();
  }
  return {};
}

Result<Ticket> QueueLog::release(std::string_view queue_id, const Envelope& replacement) {
  State& s = *state_;
  PEN_TRY_ASSIGN(const auto work, find_work(s.working, queue_id, failed_));
  PEN_TRY_ASSIGN(const Position at, s.replace(queue_id, work->second, s.logs[kJournal], replacement));
  // No FINISH: the higher generation says it, in the same log, and cannot survive a crash that it does not.
  s.note_fresh(at);
  s.close_start(work->second);
  s.working.erase(work);
  return ++s.last_ticket;
}

Result<Place> QueueLog::renew(std::string_view queue_id, const Envelope& replacement) {
  State& s = *state_;
  PEN_TRY_ASSIGN(const auto work, find_work(s.working, queue_id, failed_));
  Log& journal = s.logs[kJournal];
  // Not before START is durable: else a crash could keep this version, lose both, and leave the one before them alive.
  if (work->second.start >= journal.durable_to && !broken(Breakage::renew_at_once)) return work->second.envelope;
  const EnvelopeView body =
      make_body(replacement, work->second.generation + 1, s.clock.wall_now(), work->second.envelope.position);
  if (!s.can_append(journal, encoded_size(body) + 2 * kMaxQueueId + 256))
    return fail(QueueLogError::no_space);  // both records or none
  const std::uint64_t size = encoded_size(body);
  s.renewed_size = s.renewed_size == 0 ? size : (7 * s.renewed_size + size) / 8;
  PEN_TRY_ASSIGN(const Position envelope, s.put_envelope(journal, body));
  const StartBody start{work->first, body.generation, envelope};
  const auto at = s.put(journal, RecordType::start, start);
  PEN_CHECK(at.has_value());
  s.close_start(work->second);
  work->second = {body.generation, {kJournal, envelope}, *at, false, replacement_size(body)};
  s.starts.emplace(*at, work->first);
  s.begun_bytes += work->second.bytes;
  if (!broken(Breakage::unpinned_envelope)) ++s.segments.at(envelope.use).pins;
  s.mark_later(envelope, *at, true);
  return Place{kJournal, envelope};
}

Result<Ticket> QueueLog::remove(std::string_view queue_id) {
  State& s = *state_;
  PEN_TRY_ASSIGN(const auto work, find_work(s.working, queue_id, failed_));
  const TombstoneBody body{work->first, work->second.generation, work->second.envelope.position};
  PEN_TRY(s.put(s.logs[kJournal], RecordType::tombstone, body));
  s.close_start(work->second);
  s.working.erase(work);
  return ++s.last_ticket;
}

Result<Ticket> QueueLog::remove(const Place& place, std::string_view queue_id, std::uint32_t generation) {
  if (failed_) return fail(QueueLogError::io_error);
  if (recovery_ != Recovery::done) return fail(QueueLogError::recovering);
  State& s = *state_;
  if (!s.segments.contains(place.position.use) || s.dead.contains(place.position) || s.working.contains(queue_id) ||
      place.position >= s.logs[place.log].durable_to)
    return fail(QueueLogError::not_found, std::string(queue_id));
  PEN_TRY_ASSIGN(const bool garbage, s.garbage_on_disk(place.position));
  if (garbage) return fail(QueueLogError::not_found, std::string(queue_id));
  const TombstoneBody body{std::string(queue_id), generation, place.position};
  PEN_TRY_ASSIGN(const Position at, s.put(s.logs[kJournal], RecordType::tombstone, body));
  s.mark_later(place.position, at);
  if (place.log == kHold) s.hold_changed = true;
  if (place.log == kJournal) s.pass_fresh(place.position);
  return ++s.last_ticket;
}

std::optional<std::string> QueueLog::stale() const {
  State& s = *state_;
  const Log& journal = s.logs[kJournal];
  const Position end = journal.end();
  const std::uint64_t limit =
      std::max<std::uint64_t>(s.options.suffix_limit, kSuffixShare * s.renewed_size * s.starts.size());
  for (const auto& [at, id] : s.starts) {
    const auto first = std::lower_bound(journal.uses.begin(), journal.uses.end(), at.use);
    const auto between = static_cast<std::uint64_t>(journal.uses.end() - first) - 1;
    if (between * s.options.segment_size + end.offset - at.offset <= limit) break;
    const auto& work = s.working.find(id)->second;
    if (!work.moving) return id;
    for (Log& log : s.logs)
      if (!log.moving.empty()) log.sync_wanted = true;  // its FINISH waits for that
  }
  return std::nullopt;
}

}  // namespace pen::queue_log
