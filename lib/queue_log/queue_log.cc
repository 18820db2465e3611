#include "lib/queue_log/queue_log.h"

#include <xxhash.h>

#include <algorithm>

#include "lib/base/check.h"
#include "lib/queue_log/breakage.h"
#include "lib/queue_log/recovery.h"
#include "lib/queue_log/state.h"

namespace pen::queue_log {

namespace {
// gathered bytes that are worth a write nobody waits for
constexpr std::size_t kLazyEnough = 256 * 1024;
constexpr std::size_t kMovesEnough = 1024;  // replacements whose log is synced for their sake
constexpr std::size_t kAllocateAtOnce = 4;  // segments made within one commit: it waits for them
// A second batch is handed out when at least this part of the first one's number waits for it.
constexpr Ticket kBesideShare = 4;
}  // namespace

std::vector<seconds> retry_ladder(seconds minimal, seconds maximal) {
  minimal = std::max(minimal, seconds(1));
  maximal = std::max(maximal, minimal);
  std::vector<seconds> ladder;
  for (seconds s = minimal; s < maximal && ladder.size() < 31; s *= 2) ladder.push_back(s);
  ladder.push_back(maximal);
  return ladder;
}

Result<void> Batch::step(Storage& storage) {
  BatchStep& step = steps_[done_++];
  switch (step.kind) {
    case BatchStep::Kind::write:
      return storage.write(step.slot, step.offset, as_bytes(step.bytes));
    case BatchStep::Kind::sync:
      return storage.sync(step.slot);
    case BatchStep::Kind::allocate:
      // The first that does not fit ends it: slots are numbered without gaps.
      if (full_) {
        step.failed = true;
      } else if (auto made = storage.allocate(step.slot, step.offset); !made) {
        if (!made.error().is_errno(ENOSPC) && !made.error().is_errno(EDQUOT)) return made;
        full_ = step.failed = true;
      }
      return {};
    case BatchStep::Kind::set_aside:
      step.failed = !storage.set_aside(step.slot);
      return {};
  }
  return {};
}

Result<void> Batch::execute(Storage& storage) {
  while (!done()) PEN_TRY(step(storage));
  return {};
}

std::size_t Batch::bytes() const {
  std::size_t n = 0;
  for (const BatchStep& step : steps_) n += step.bytes.size();
  return n;
}

EnvelopeBody make_body(const Envelope& e, std::uint32_t generation, WallTime appended,
                       const Position& replaces) {
  EnvelopeBody body{generation, appended, replaces, e.queue_id, e.recipients, e.remaining,
                    e.arrived,  e.size,   e.sender, e.domains,  {},           e.payload};
  if (body.domains.size() > kMaxDomains) body.domains.resize(kMaxDomains);
  return body;
}

QueueLog::QueueLog(std::unique_ptr<State> state) : state_(std::move(state)) {}
QueueLog::~QueueLog() = default;

Result<std::unique_ptr<QueueLog>> QueueLog::open(Storage& storage, Options options,
                                                 const Clock& clock, Random& random) {
  PEN_CHECK(options.segment_size >= kMinSegment && options.segment_size <= kMaxSegment &&
            options.segment_size % 4096 == 0);
  PEN_CHECK(!options.intervals.empty() && options.intervals.size() <= 32);
  PEN_CHECK(std::is_sorted(options.intervals.begin(), options.intervals.end()));
  std::unique_ptr<QueueLog> log(
      new QueueLog(std::make_unique<State>(storage, std::move(options), clock, random)));
  log->state_->report = &log->report_;
  PEN_TRY(open_recovery(*log->state_, log->report_));
  State& s = *log->state_;
  if (broken(Breakage::append_after_torn_tail)) PEN_TRY(append_after_torn_tail(s));
  if (!s.logs[kJournal].open) PEN_TRY(s.roll(s.logs[kJournal]));
  s.scan_end = {s.logs[kJournal].uses.back(), s.logs[kJournal].cursor};
  return log;
}

// --- new mail ---

QueueLog::State::IdKey QueueLog::State::id_key(std::string_view queue_id) const {
  const XXH128_hash_t h = XXH3_128bits_withSeed(queue_id.data(), queue_id.size(), id_seed);
  return {h.low64, h.high64};
}

void QueueLog::State::remember(std::string_view queue_id, Accepted what) {
  const IdKey key = id_key(queue_id);
  if (!accepted.emplace(key, what).second) return;
  accepted_order.push_back(key);
  if (accepted_order.size() > options.remembered_ids) {
    accepted.erase(accepted_order.front());
    accepted_order.pop_front();
  }
}

void QueueLog::State::note_fresh(const Position& position) {
  if (fresh_lost) return;
  if (fresh.size() >= kMaxFresh) {
    fresh_lost = position;
    return;
  }
  fresh.push_back({position, false});
}

bool QueueLog::has_space() const { return !failed_ && state_->has_space(); }

Result<QueueLog::Appended> QueueLog::append(const Envelope& envelope) {
  if (failed_) return fail(QueueLogError::io_error);
  State& s = *state_;
  PEN_CHECK(!envelope.queue_id.empty() && envelope.queue_id.size() <= kMaxQueueId);
  if (const auto known = s.accepted.find(s.id_key(envelope.queue_id)); known != s.accepted.end())
    return Appended{known->second.ticket, {kJournal, known->second.position}, true};
  if (envelope.payload.size() > kMaxMessage) return fail(QueueLogError::too_large);
  Log& journal = s.logs[kJournal];
  if (!s.has_space()) return fail(QueueLogError::no_space);
  std::size_t gathered = journal.pending.size();
  for (const BatchStep& step : journal.left) gathered += step.bytes.size();
  if (gathered > s.options.max_batch) return fail(QueueLogError::no_space);
  PEN_TRY_ASSIGN(const Position at,
                 s.put_envelope(journal, make_body(envelope, 0, s.clock.wall_now(), {})));
  s.note_fresh(at);
  const Ticket ticket = ++s.last_ticket;
  s.remember(envelope.queue_id, {ticket, at});
  return Appended{ticket, {kJournal, at}, false};
}

// --- committing ---

QueueLog::State::Need QueueLog::State::needs(bool flush, bool save_asked, bool recovered) {
  Need need;
  need.awaited = last_ticket > covered;
  std::uint64_t journal = 0;
  std::uint64_t others = 0;
  for (Log& log : logs) {
    // A quiet queue settles: a message on its way to a retry log is not left between two versions.
    if (log.moving.size() > kMovesEnough || (flush && !log.moving.empty())) log.sync_wanted = true;
    need.sync_others = need.sync_others || log.sync_wanted;
    std::uint64_t& gathered = log.id == kJournal ? journal : others;
    gathered += log.pending.size() - (log.taken == 0 && log.open ? kDataStart : 0);
    for (const auto& step : log.left) gathered += step.bytes.size();
  }
  need.lazy = journal + others >= kLazyEnough || (flush && journal + others > 0);
  need.other_logs = others >= kLazyEnough || flush;
  need.marks = ready_marks >= kMarksInMemory;
  const std::size_t pool_target = reserve_segments + spare_segments;
  if (free.size() < pool_target && (!allocation_failed || clock.now() >= allocation_retry))
    need.segments = std::min(pool_target - free.size(), kAllocateAtOnce);
  need.settles = settle_wanted;
  // The old positions hold until recovery has ended. They are also saved when the pool runs low: that is what gives
  // segments back. And below the reserve a quiet queue must get its segments back too, or mail would be refused for
  // ever.
  if (recovered)
    need.save = save_asked || since_save >= options.save_every ||
                (free.size() <= reserve_segments && since_save >= options.segment_size / 4) ||
                (flush && !has_space());
  need.save = need.save || need.settles;
  return need;
}

/// A commit of new records of the journal while the one before is still at its sync: nobody waits for more than a sync
/// of his own, and a disk that takes long over each may take two at once. Only between plain batches, whose bytes a
/// crash may keep or lose in any combination.
std::optional<Batch> QueueLog::State::beside() {
  const Flight& first = flights.front();
  Log& journal = logs[kJournal];
  const Ticket waiting = last_ticket - covered;
  if (flights.size() == kBatchesAtOnce || (!first.plain && !broken(Breakage::beside_anything)))
    return std::nullopt;
  // Fewer wait until the first is done, so that groups do not fall apart into single messages.
  if (waiting == 0 || waiting < first.tickets / kBesideShare) return std::nullopt;
  // After a crash the reader looks as far beyond a torn write as one batch may reach.
  if (!journal.left.empty() || journal.pending.empty() || journal.cursor == kDataStart ||
      first.bytes + journal.pending.size() > options.max_batch)
    return std::nullopt;
  Flight flight;
  flight.plain = true;
  flight.bytes = journal.pending.size();
  flight.tickets = waiting;
  const Slot slot = segments.at(journal.uses.back()).header.slot;
  Batch batch;
  flight.covers = batch.covers_ = last_ticket;
  batch.steps_.push_back(
      {BatchStep::Kind::write, slot, journal.taken, std::move(journal.pending), false});
  journal.pending.clear();
  journal.taken = journal.cursor;
  dirty.insert(slot);
  if (!broken(Breakage::skip_commit_sync)) {
    batch.steps_.push_back({BatchStep::Kind::sync, slot, 0, {}, false});
    dirty.erase(slot);
    ++figures.syncs;
  }
  flight.written.emplace_back(kJournal, journal.end());
  flight.synced.emplace_back(kJournal, journal.end());
  covered = last_ticket;
  ++figures.commits;
  ++figures.commits_beside;
  flights.push_back(std::move(flight));
  return batch;
}

std::optional<Batch> QueueLog::next_batch() {
  State& s = *state_;
  if (failed_) return std::nullopt;
  const State::Need need = s.needs(flush_wanted_, save_wanted_, recovery_ == Recovery::done);
  const bool other_work = need.sync_others || need.segments > 0 || need.save || need.marks;
  if (!s.flights.empty()) {
    // What else there is to do waits until no batch is in hand: it is not put off for ever by new ones.
    if (other_work || need.other_logs || recovery_ != Recovery::done) return std::nullopt;
    return s.beside();
  }
  if (!need.awaited && !other_work && !need.lazy) return std::nullopt;
  Batch batch;
  State::Flight flight;
  flight.covers = batch.covers_ = s.last_ticket;
  flight.tickets = s.last_ticket - s.covered;
  flight.bytes = s.logs[kJournal].pending.size();
  flight.plain = !need.sync_others && need.segments == 0 && !need.save && !need.marks &&
                 s.logs[kJournal].left.empty();
  std::set<Slot> sync;
  for (Log& log : s.logs) s.take_records(log, need, batch, flight, sync);
  std::vector<PendingMark> marks;
  if (need.save || need.marks) marks = s.take_marks();
  if (need.save) s.condemn(flight, marks);
  s.write_marks(marks, batch, flight);
  if (need.save) sync = s.dirty;
  const std::size_t before_syncs = batch.steps_.size();
  if (!broken(Breakage::skip_commit_sync) || need.save)
    for (Slot slot : sync) {
      batch.steps_.push_back({BatchStep::Kind::sync, slot, 0, {}, false});
      s.dirty.erase(slot);
      ++s.figures.syncs;
    }
  if (!need.save && broken(Breakage::recycle_before_save)) s.condemn(flight, marks);
  if (need.save) {
    s.save(batch, before_syncs);
    flight.save = true;
    flight.settles = need.settles;
    save_wanted_ = false;
  }
  flush_wanted_ = false;
  for (std::size_t n = need.segments; n > 0; --n) {
    flight.allocating.push_back(++s.last_slot);
    batch.steps_.push_back(
        {BatchStep::Kind::allocate, s.last_slot, s.options.segment_size, {}, false});
  }
  s.covered = s.last_ticket;
  ++s.figures.commits;
  s.flights.push_back(std::move(flight));
  return batch;
}

/// Moves what a log has gathered into the batch; its slot is added to `sync` if it is to be synced.
void QueueLog::State::take_records(Log& log, const Need& need, Batch& batch, Flight& flight,
                                   std::set<Slot>& sync) {
  for (BatchStep& step : log.left) {
    if (step.kind == BatchStep::Kind::sync)
      dirty.erase(step.slot);
    else
      dirty.insert(step.slot);
    batch.steps_.push_back(std::move(step));
  }
  log.left.clear();
  const Slot slot = log.open ? segments.at(log.uses.back()).header.slot : 0;
  // A header waits for the first record (or for positions that list it): a segment that was opened and never used
  // leaves nothing on the disk.
  if (!log.pending.empty() && (log.cursor != kDataStart || need.save)) {
    batch.steps_.push_back(
        {BatchStep::Kind::write, slot, log.taken, std::move(log.pending), false});
    log.pending.clear();
    log.taken = log.cursor;
    dirty.insert(slot);
  }
  flight.written.emplace_back(log.id, log.end());
  if (!log.sync_wanted && !need.save && !(log.id == kJournal && need.awaited)) return;
  log.sync_wanted = false;
  each_runner(log.id, [](Runner& runner) { runner.first_unsynced.reset(); });
  if (slot != 0 && dirty.contains(slot)) sync.insert(slot);
  flight.synced.emplace_back(log.id, log.end());
}

void QueueLog::State::write_marks(const std::vector<PendingMark>& taken, Batch& batch,
                                  Flight& flight) {
  for (const PendingMark& mark : taken) {
    const Position at = mark.envelope;
    flight.marks.push_back(at);
    const SegmentHeader& segment = segments.at(at.use).header;
    std::string word(4, '\0');
    store_le(reinterpret_cast<std::byte*>(word.data()), garbage_mark(segment, at.offset));
    batch.steps_.push_back(
        {BatchStep::Kind::write, segment.slot, at.offset, std::move(word), false});
    dirty.insert(segment.slot);
  }
}

/// Adds the writing of the restart positions, which comes after the syncs that begin at step `before_syncs`.
void QueueLog::State::save(Batch& batch, std::size_t before_syncs) {
  ++positions_sequence;
  const std::string bytes = encode_positions(positions());
  PEN_CHECK(bytes.size() <= kPositionsCopy);
  BatchStep write{
      BatchStep::Kind::write, kPositionsSlot,
      broken(Breakage::positions_in_one_place) ? 0 : positions_sequence % 2 * kPositionsCopy, bytes,
      false};
  BatchStep sync{BatchStep::Kind::sync, kPositionsSlot, 0, {}, false};
  if (broken(Breakage::positions_before_sync)) {
    batch.steps_.insert(batch.steps_.begin() + static_cast<std::ptrdiff_t>(before_syncs), sync);
    batch.steps_.insert(batch.steps_.begin() + static_cast<std::ptrdiff_t>(before_syncs), write);
  } else {
    batch.steps_.push_back(std::move(write));
    batch.steps_.push_back(std::move(sync));
  }
  // Positions that need them no more, and say that they are damaged, are on the disk first.
  for (const Slot slot : aside)
    batch.steps_.push_back({BatchStep::Kind::set_aside, slot, 0, {}, false});
  aside.clear();
  settle_wanted = false;
  since_save = 0;
  ++figures.syncs;
}

Result<Ticket> QueueLog::complete(Batch batch, Result<void> executed) {
  State& s = *state_;
  PEN_CHECK(!s.flights.empty() && s.flights.front().covers == batch.covers_,
            "batches are completed in the order they were made");
  State::Flight flight = std::move(s.flights.front());
  s.flights.pop_front();
  if (!executed) {
    failed_ = true;
    return fail(QueueLogError::io_error, executed.error().message(), executed.error().sys_errno());
  }
  if (!flight.allocating.empty()) {
    s.allocation_failed = batch.steps_.back().failed;
    if (s.allocation_failed) s.allocation_retry = s.clock.now() + kAllocationRetry;
    const auto steps = batch.steps_.end() - static_cast<std::ptrdiff_t>(flight.allocating.size());
    for (std::size_t i = 0; i < flight.allocating.size(); ++i) {
      if (steps[static_cast<std::ptrdiff_t>(i)].failed)
        --s.last_slot;
      else
        s.free.push_back(flight.allocating[i]);
    }
  }
  for (const BatchStep& step : batch.steps_)
    if (step.kind == BatchStep::Kind::set_aside && !step.failed) s.damaged.erase(step.slot);
  for (const Position& at : flight.marks) s.dead.erase(at);
  for (const auto& [id, position] : flight.synced) {
    Log& log = s.logs[id];
    log.durable_to = position;
    if (log.open && log.uses.back() == position.use) log.durable_offset = position.offset;
  }
  for (const auto& [id, position] : flight.written) s.logs[id].written_to = position;
  const Position journal_durable = s.logs[kJournal].durable_to;
  while (s.ready_marks < s.marks.size() &&
         (s.marks[s.ready_marks].because < journal_durable || broken(Breakage::mark_before_start)))
    ++s.ready_marks;
  if (flight.save) {
    ++s.figures.positions_saved;
    s.free.insert(s.free.end(), flight.condemned.begin(), flight.condemned.end());
  }
  committed_ = broken(Breakage::acknowledge_early) ? s.last_ticket : flight.covers;
  if (flight.settles) {
    recovery_ = Recovery::done;
    s.recovering.reset();
  }
  for (Log& log : s.logs) PEN_TRY(s.settle_moves(log));
  return committed_;
}

std::uint64_t QueueLog::next_save() const { return state_->positions_sequence + 1; }
std::uint64_t QueueLog::last_save() const {
  // A save is alone in flight.
  return state_->positions_sequence -
         (!state_->flights.empty() && state_->flights.front().save ? 1 : 0);
}

const Options& QueueLog::options() const { return state_->options; }

QueueLog::Figures QueueLog::figures() const {
  Figures f = state_->figures;
  f.segments_used = state_->segments.size();
  f.segments_free = state_->free.size();
  f.segments_reserved = std::min(state_->free.size(), state_->reserve_segments);
  const Position end = state_->logs[kJournal].end();
  const Position start = state_->suffix_start();
  for (const SegmentUse use : state_->logs[kJournal].uses) {
    if (use < start.use) continue;
    const std::uint64_t from = use == start.use ? start.offset : 0;
    f.suffix_bytes += (use == end.use ? end.offset : state_->options.segment_size) - from;
  }
  return f;
}

}  // namespace pen::queue_log
