// Commits: what is to be written, in which order, and what is so once it was.
//
// Three lanes, so that nobody who waits for his message waits for anything else:
// - the journal: new mail and what is said about mail, a write and a sync; several commits at once;
// - the other logs, garbage marks and the restart positions: one batch at a time;
// - the pool: a segment that is made.
// Only while recovery runs, and for messages put on hold (which wait for two logs), one batch does it all.
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
// A further commit of the journal is handed out when at least this part of the number in another one waits for it,
constexpr Ticket kBesideShare = 4;
// or, once as many wait for those at their sync as want groups rather than a sync each, so many.
constexpr Ticket kFew = 16;
constexpr Ticket kWorthASync = 20;
// What is kept of the memory of commits.
constexpr std::size_t kLeastBuffer = 4096;
constexpr std::size_t kMostBuffer = 1U << 20;

std::uint64_t gathered(const Log& log) {
  std::uint64_t bytes = log.pending.size() - (log.taken == 0 && log.open ? kDataStart : 0);
  for (const BatchStep& step : log.left) bytes += step.bytes.size();
  return bytes;
}
}  // namespace

// --- a batch ---

Result<void> Batch::step(Storage& storage) {
  BatchStep& step = steps_[done_++];
  switch (step.kind) {
    case BatchStep::Kind::write:
      if (auto wrote = storage.write(step.slot, step.offset, as_bytes(step.bytes)); !wrote)
        if (!broken(Breakage::ignore_failed_write)) return wrote;
      return {};
    case BatchStep::Kind::sync:
      return storage.sync(step.slot);
    case BatchStep::Kind::allocate:
      if (auto made = storage.allocate(step.slot, step.offset); !made) {
        if (!made.error().is_errno(ENOSPC) && !made.error().is_errno(EDQUOT)) return made;
        step.failed = true;
      }
      return {};
    case BatchStep::Kind::set_aside:
      if (auto moved = storage.set_aside(step.slot); !moved) {
        step.failed = true;
        step.error = moved.error().message();
      }
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

// --- what there is to do ---

QueueLog::State::Need QueueLog::State::needs() {
  Need need;
  need.awaited = last_ticket > covered;
  const bool flush = flush_journal || flush_others;
  std::uint64_t others = 0;
  for (Log& log : logs) {
    if (log.id == kJournal) continue;
    // A quiet queue settles: a message on its way to a retry log is not left between two versions.
    if ((log.moving.size() > kMovesEnough || (flush_others && !log.moving.empty())) &&
        !syncing(log, log.moving.back().replacement))
      log.sync_wanted = true;
    need.sync_others = need.sync_others || log.sync_wanted;
    others += gathered(log);
  }
  const std::uint64_t journal = gathered(logs[kJournal]);
  need.lazy_journal = journal >= kLazyEnough || (flush_journal && journal > 0);
  need.lazy_others = others >= kLazyEnough || (flush_others && others > 0);
  need.marks = ready_marks >= kMarksInMemory;
  // The save that ends recovery has the marks of what was sent again meanwhile: those must be durable first.
  if (settle_wanted) {
    const Position& last = recovering->sent_again;
    need.settles =
        last.use == 0 || last < logs[kJournal].durable_to || broken(Breakage::settle_before_copies_are_marked);
  }
  // The old positions hold until recovery has ended. They are also saved when the pool runs low: that is what gives
  // segments back. And below the reserve a quiet queue must get its segments back too, or mail would be refused for
  // ever.
  if (flush && !has_space()) save_asked = true;
  if (!recovering && !saving)
    need.save = save_asked || since_save >= options.save_every ||
                (free.size() <= reserve() && since_save >= options.segment_size / 4);
  need.save = need.save || need.settles;
  if (journal == 0) flush_journal = false;
  if (others == 0) flush_others = false;
  return need;
}

std::optional<Batch> QueueLog::next_batch() {
  State& s = *state_;
  if (failed_) return std::nullopt;
  if (auto batch = s.pool_batch()) return batch;
  if (auto batch = s.positions_batch()) return batch;
  const State::Need need = s.needs();
  if (s.recovering || s.last_hold > s.covered) return s.whole_batch(need);
  if (auto batch = s.journal_batch(need)) return batch;
  return s.others_batch(need);
}

void QueueLog::flush() { state_->flush_journal = state_->flush_others = true; }
void QueueLog::save_positions() { state_->save_asked = true; }

// --- the lanes ---

std::pair<Batch, Flight> QueueLog::State::new_batch() {
  std::pair<Batch, Flight> made;
  made.first.number_ = made.second.number = ++last_batch;
  return made;
}

/// A commit of the journal while others are at their sync: nobody waits for more than a sync of his own, and a disk
/// that takes long over each may take several at once. A crash may keep or lose their bytes in any combination.
bool QueueLog::State::may_go_beside() const {
  const Log& journal = logs[kJournal];
  const Ticket waiting = last_ticket - covered;
  Ticket most = 0, in_flight = 0;
  std::uint64_t bytes = journal.pending.size();
  for (const Flight& flight : journal_flights) {
    if (flight.alone && !broken(Breakage::beside_anything)) return false;
    most = std::max(most, flight.tickets);
    in_flight += flight.tickets;
    bytes += flight.bytes;
  }
  // Fewer wait until one is done, so that groups do not fall apart into single messages.
  const Ticket least = in_flight < kFew ? most / kBesideShare : kWorthASync;
  if (journal_flights.size() == kJournalBatches || waiting == 0 || waiting < least) return false;
  if (!journal.left.empty() && !broken(Breakage::beside_anything)) return false;
  // After a crash the reader looks as far beyond a torn write as one batch may reach.
  return bytes <= options.max_batch;
}

std::optional<Batch> QueueLog::State::journal_batch(const Need& need) {
  Log& journal = logs[kJournal];
  if (journal.sync_wanted && journal.durable_to == journal.end()) journal.sync_wanted = false;
  if (!need.awaited && !need.lazy_journal && !journal.sync_wanted) return std::nullopt;
  if (!journal_flights.empty() && !may_go_beside()) return std::nullopt;
  auto [batch, flight] = new_batch();
  flight.covers = batch.covers_ = last_ticket;
  flight.tickets = last_ticket - covered;
  flight.bytes = gathered(journal);
  const bool synced = need.awaited || journal.sync_wanted;
  // The sync of another must not count for what this one has yet to write.
  flight.alone = !journal.left.empty() || !synced;
  take_records(journal, journal.sync_wanted, batch, flight);
  std::set<Slot> sync;
  if (synced) sync_records(journal, sync, flight);
  if (!broken(Breakage::skip_commit_sync)) add_syncs(sync, batch);
  if (broken(Breakage::recycle_before_save)) {
    std::vector<PendingMark> none;
    (void)condemn(none);
  }
  covered = last_ticket;
  flush_journal = false;
  ++figures.commits;
  figures.commits_beside += journal_flights.empty() ? 0 : 1;
  journal_flights.push_back(std::move(flight));
  return std::move(batch);
}

std::optional<Batch> QueueLog::State::others_batch(const Need& need) {
  if (other_flight || (!journal_flights.empty() && journal_flights.front().whole)) return std::nullopt;
  if (!need.sync_others && !need.lazy_others && !need.marks && !need.save) return std::nullopt;
  auto [batch, flight] = new_batch();
  std::set<Slot> sync;
  for (Log& log : logs) {
    if (log.id == kJournal) continue;
    if (need.save) close_if_empty(log);
    take_records(log, need.save, batch, flight);
    if (log.sync_wanted || need.save) sync_records(log, sync, flight);
  }
  std::vector<PendingMark> garbage;
  if (need.save || need.marks) garbage = take_marks();
  if (need.save) {
    begin_save(garbage);
    flight.save = Save::prepares;
    // The journal's own lane does the rest.
    Log& journal = logs[kJournal];
    saving->journal_end = journal.end();
    journal.sync_wanted = !synced_soon(journal, saving->journal_end);
  }
  write_marks(garbage, batch, flight);
  if (need.save) sync = dirty;
  if (need.save && broken(Breakage::positions_before_sync)) write_positions(batch);
  add_syncs(sync, batch);
  flush_others = false;
  other_flight = std::move(flight);
  return std::move(batch);
}

std::optional<Batch> QueueLog::State::positions_batch() {
  if (!saving || !saving->others_synced || other_flight) return std::nullopt;
  if (logs[kJournal].durable_to < saving->journal_end && !broken(Breakage::positions_before_journal))
    return std::nullopt;
  auto [batch, flight] = new_batch();
  write_positions(batch);
  flight.save = Save::writes;
  other_flight = std::move(flight);
  return std::move(batch);
}

/// All logs in one, alone.
std::optional<Batch> QueueLog::State::whole_batch(const Need& need) {
  if (!journal_flights.empty() || other_flight) return std::nullopt;
  if (!need.awaited && !need.lazy_journal && !need.lazy_others && !need.sync_others && !need.marks && !need.save)
    return std::nullopt;
  auto [batch, flight] = new_batch();
  flight.covers = batch.covers_ = last_ticket;
  flight.alone = flight.whole = true;
  std::set<Slot> sync;
  for (Log& log : logs) {
    if (need.save) close_if_empty(log);
    take_records(log, need.save, batch, flight);
    if (log.sync_wanted || need.save || (log.id == kJournal && need.awaited)) sync_records(log, sync, flight);
  }
  std::vector<PendingMark> garbage;
  if (need.save || need.marks) garbage = take_marks();
  if (need.save) {
    begin_save(garbage);
    flight.save = Save::whole;
    flight.settles = need.settles;
  }
  write_marks(garbage, batch, flight);
  if (need.save) sync.insert(dirty.begin(), dirty.end());
  if (need.save && broken(Breakage::positions_before_sync)) write_positions(batch);
  if (need.save || !broken(Breakage::skip_commit_sync)) add_syncs(sync, batch);
  if (need.save && !broken(Breakage::positions_before_sync)) write_positions(batch);
  covered = last_ticket;
  flush_journal = flush_others = false;
  ++figures.commits;
  journal_flights.push_back(std::move(flight));
  return std::move(batch);
}

std::optional<Batch> QueueLog::State::pool_batch() {
  if (pool_flight || free.size() >= reserve() + spare_segments) return std::nullopt;
  if (allocation_failed && clock.now() < allocation_retry) return std::nullopt;
  auto [batch, flight] = new_batch();
  batch.steps_.push_back({BatchStep::Kind::allocate, ++last_slot, options.segment_size, {}, false});
  pool_flight = std::move(flight);
  return std::move(batch);
}

// --- parts of a batch ---

/// Moves what a log has gathered into the batch. A header waits for the first record, or for positions that list it: a
/// segment that was opened and never used leaves nothing on the disk.
void QueueLog::State::take_records(Log& log, bool even_a_header, Batch& batch, Flight& flight) {
  for (BatchStep& step : log.left) {
    if (step.kind == BatchStep::Kind::sync) {
      ++figures.syncs;
      // Marks for a segment of the journal are written in another lane.
      if (log.id != kJournal) dirty.erase(step.slot);
    } else if (log.id != kJournal) {
      dirty.insert(step.slot);
    }
    batch.steps_.push_back(std::move(step));
  }
  log.left.clear();
  if (!log.pending.empty() && (log.cursor != kDataStart || even_a_header)) {
    const Slot slot = segments.at(log.uses.back()).header.slot;
    batch.steps_.push_back({BatchStep::Kind::write, slot, log.taken, std::move(log.pending), false});
    log.pending = spare_buffers.empty() ? std::string() : std::move(spare_buffers.back());
    if (!spare_buffers.empty()) spare_buffers.pop_back();
    log.taken = log.cursor;
    if (log.id != kJournal) dirty.insert(slot);
  }
  flight.written.emplace_back(log.id, log.end());
}

/// What was taken of the log is durable with this batch: its slot is added to `sync` if it was written to.
void QueueLog::State::sync_records(Log& log, std::set<Slot>& sync, Flight& flight) {
  log.sync_wanted = false;
  each_runner(log.id, [](Runner& runner) { runner.first_unsynced.reset(); });
  if (log.open) {
    const Slot slot = segments.at(log.uses.back()).header.slot;
    if (log.id == kJournal ? log.taken > log.durable_offset : dirty.contains(slot)) sync.insert(slot);
  }
  flight.synced.emplace_back(log.id, log.end());
}

void QueueLog::State::add_syncs(const std::set<Slot>& slots, Batch& batch) {
  for (const Slot slot : slots) {
    batch.steps_.push_back({BatchStep::Kind::sync, slot, 0, {}, false});
    dirty.erase(slot);
    ++figures.syncs;
  }
}

void QueueLog::State::write_marks(const std::vector<PendingMark>& taken, Batch& batch, Flight& flight) {
  figures.marks_written += taken.size();
  for (const PendingMark& mark : taken) {
    const Position at = mark.envelope;
    flight.marks.push_back(at);
    const SegmentHeader& segment = segments.at(at.use).header;
    std::string word(4, '\0');
    store_le(reinterpret_cast<std::byte*>(word.data()), garbage_mark(segment, at.offset));
    batch.steps_.push_back({BatchStep::Kind::write, segment.slot, at.offset, std::move(word), false});
    dirty.insert(segment.slot);
  }
}

/// Takes the positions of this moment. `garbage`: the marks about to be written; some become needless.
void QueueLog::State::begin_save(std::vector<PendingMark>& garbage) {
  saving.emplace();
  saving->condemned = condemn(garbage);
  ++positions_sequence;
  saving->positions = encode_positions(positions());
  PEN_CHECK(saving->positions.size() <= kPositionsCopy);
  // Positions that need them no more, and say that they are damaged, are on the disk first.
  saving->aside = std::exchange(aside, {});
  settle_wanted = false;
  save_asked = false;
  since_save = 0;
}

void QueueLog::State::write_positions(Batch& batch) {
  const std::uint64_t copy = broken(Breakage::positions_in_one_place) ? 0 : positions_sequence % 2 * kPositionsCopy;
  batch.steps_.push_back({BatchStep::Kind::write, kPositionsSlot, copy, saving->positions, false});
  batch.steps_.push_back({BatchStep::Kind::sync, kPositionsSlot, 0, {}, false});
  ++figures.syncs;
  for (const Slot slot : saving->aside) batch.steps_.push_back({BatchStep::Kind::set_aside, slot, 0, {}, false});
}

// --- what is so afterwards ---

Result<Ticket> QueueLog::complete(Batch batch, Result<void> executed) {
  State& s = *state_;
  if (failed_) return fail(QueueLogError::io_error);  // the process ends: nothing counts any more
  if (!executed) {
    failed_ = true;
    return fail(QueueLogError::io_error, executed.error().message(), executed.error().sys_errno());
  }
  for (BatchStep& step : batch.steps_) {
    if (step.kind != BatchStep::Kind::set_aside) continue;
    if (step.failed)
      s.note_left(step.slot, std::move(step.error));
    else
      s.damaged.erase(step.slot);
  }
  const auto take_back = [&](const Flight& flight) {
    s.apply(flight);
    if (flight.covers != 0) committed_ = flight.covers;
    if (flight.settles) {
      recovery_ = Recovery::done;
      s.recovering.reset();
    }
  };
  if (s.pool_flight && s.pool_flight->number == batch.number_) {
    s.pool_flight.reset();
    s.complete_allocation(batch);
  } else if (s.other_flight && s.other_flight->number == batch.number_) {
    const Flight flight = *std::move(s.other_flight);
    s.other_flight.reset();
    take_back(flight);
  } else {
    const auto mine = std::find_if(s.journal_flights.begin(), s.journal_flights.end(),
                                   [&](const auto& f) { return f.number == batch.number_; });
    PEN_CHECK(mine != s.journal_flights.end(), "a batch is completed once");
    mine->done = true;
    // Nothing is acknowledged before what was appended before it.
    while (!s.journal_flights.empty() && s.journal_flights.front().done) {
      const Flight flight = std::move(s.journal_flights.front());
      s.journal_flights.pop_front();
      take_back(flight);
    }
    s.keep_buffers(batch);
  }
  if (broken(Breakage::acknowledge_early)) committed_ = s.last_ticket;
  for (Log& log : s.logs) PEN_TRY(s.settle_moves(log));
  return committed_;
}

void QueueLog::State::apply(const Flight& flight) {
  for (const Position& at : flight.marks) dead.erase(at);
  for (const auto& [id, position] : flight.synced) {
    Log& log = logs[id];
    log.durable_to = position;
    if (log.open && log.uses.back() == position.use) log.durable_offset = position.offset;
  }
  for (const auto& [id, position] : flight.written) logs[id].written_to = position;
  count_ready_marks();
  if (flight.save == Save::prepares) saving->others_synced = true;
  if (flight.save == Save::writes || flight.save == Save::whole) {
    ++figures.positions_saved;
    free.insert(free.end(), saving->condemned.begin(), saving->condemned.end());
    saving.reset();
  }
}

void QueueLog::State::complete_allocation(const Batch& batch) {
  const BatchStep& step = batch.steps_.front();
  allocation_failed = step.failed;
  if (step.failed) {
    --last_slot;  // slots are numbered without gaps
    allocation_retry = clock.now() + kAllocationRetry;
  } else {
    free.push_back(step.slot);
  }
}

/// The memory of a commit serves the next one.
void QueueLog::State::keep_buffers(Batch& batch) {
  for (BatchStep& step : batch.steps_) {
    if (step.bytes.size() < kLeastBuffer || step.bytes.capacity() > kMostBuffer ||
        spare_buffers.size() == QueueLog::kJournalBatches)
      continue;
    step.bytes.clear();
    spare_buffers.push_back(std::move(step.bytes));
  }
}

/// Whether a commit in hand makes everything up to the position durable.
bool QueueLog::State::syncing(const Log& log, const Position& position) const {
  const auto in = [&](const Flight& flight) {
    return std::any_of(flight.synced.begin(), flight.synced.end(),
                       [&](const auto& synced) { return synced.first == log.id && position < synced.second; });
  };
  return (other_flight && in(*other_flight)) || std::any_of(journal_flights.begin(), journal_flights.end(), in);
}

/// Whether everything below the position is durable, or will be by a commit in hand.
bool QueueLog::State::synced_soon(const Log& log, const Position& position) const {
  const auto reaches = [&](const auto& synced) { return synced.first == log.id && position <= synced.second; };
  return position <= log.durable_to ||
         std::any_of(journal_flights.begin(), journal_flights.end(), [&](const Flight& flight) {
           return std::any_of(flight.synced.begin(), flight.synced.end(), reaches);
         });
}

}  // namespace pen::queue_log
