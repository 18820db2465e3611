// Commits: batches, and the lanes that make them.
#include "lib/queue/queue_log/lanes.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/queue/queue_log/breakage.h"

namespace pen::queue_log {

namespace {
// gathered bytes that are worth a write nobody waits for
constexpr std::size_t kLazyEnough = 256 * 1024;
constexpr std::size_t kMovesEnough = 1024;  // so many replacements, and their log is synced for them
// A further commit of the journal is handed out when at least this part of the number in another one waits for it,
constexpr Ticket kBesideShare = 4;
// or, once as many wait for those at their sync as want groups rather than a sync each, so many.
constexpr Ticket kFew = 16;
constexpr Ticket kWorthASync = 20;
// What is kept of the memory of commits.
constexpr std::size_t kLeastBuffer = 4096;
constexpr std::size_t kMostBuffer = 1U << 20;
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

CommitLanes::Need CommitLanes::needs() {
  Need need;
  need.awaited = last_ticket_ > covered_;
  const bool flush = flush_journal_ || flush_others_;
  std::uint64_t others = 0;
  for (Log& log : logs_) {
    if (log.id() == kJournal) continue;
    // A quiet queue settles: a message on its way to a retry log is not left between two versions.
    if ((log.moving.size() > kMovesEnough || (flush_others_ && !log.moving.empty())) &&
        !log.syncing(log.moving.back().replacement))
      log.sync_wanted = true;
    need.sync_others = need.sync_others || log.sync_wanted;
    others += log.gathered_records();
  }
  const std::uint64_t journal = logs_.journal().gathered_records();
  need.lazy_journal = journal >= kLazyEnough || (flush_journal_ && journal > 0);
  need.lazy_others = others >= kLazyEnough || (flush_others_ && others > 0);
  need.marks = marks_.too_many();
  need.settles = positions_.settles();
  // Below the reserve a quiet queue must get its segments back too, or mail would be refused for ever.
  if (flush && !pool_.has_space()) positions_.ask();
  // The old positions hold until recovery has ended.
  need.save = need.settles || (settled_ && positions_.due());
  if (journal == 0) flush_journal_ = false;
  if (others == 0) flush_others_ = false;
  return need;
}

std::optional<Batch> CommitLanes::next() {
  if (auto batch = pool_batch()) return batch;
  if (auto batch = positions_batch()) return batch;
  const Need need = needs();
  if (!settled_ || last_hold_ > covered_) return whole_batch(need);
  if (auto batch = journal_batch(need)) return batch;
  return others_batch(need);
}

// --- the lanes ---

std::pair<Batch, Flight> CommitLanes::new_batch() {
  std::pair<Batch, Flight> made;
  made.first.number_ = made.second.number = ++last_batch_;
  return made;
}

/// A commit of the journal while others are at their sync: nobody waits for more than a sync of his own, and a disk
/// that takes long over each may take several at once. A crash may keep or lose their bytes in any combination.
bool CommitLanes::may_go_beside() const {
  const Log& journal = logs_.journal();
  const Ticket waiting = last_ticket_ - covered_;
  Ticket most = 0, in_flight = 0;
  std::uint64_t bytes = journal.pending();
  for (const Flight& flight : journal_flights_) {
    if (flight.alone && !broken(Breakage::beside_anything)) return false;
    most = std::max(most, flight.tickets);
    in_flight += flight.tickets;
    bytes += flight.bytes;
  }
  // Fewer wait until one is done, so that groups do not fall apart into single messages.
  const Ticket least = in_flight < kFew ? most / kBesideShare : kWorthASync;
  if (journal_flights_.size() == kJournalBatches || waiting == 0 || waiting < least) return false;
  if (journal.has_sealed() && !broken(Breakage::beside_anything)) return false;
  // After a crash the reader looks as far beyond a torn write as one batch may reach.
  return bytes <= around_.options.max_batch;
}

std::optional<Batch> CommitLanes::journal_batch(const Need& need) {
  Log& journal = logs_.journal();
  if (journal.sync_wanted && journal.durable_to == journal.end()) journal.sync_wanted = false;
  if (!need.awaited && !need.lazy_journal && !journal.sync_wanted) return std::nullopt;
  if (!journal_flights_.empty() && !may_go_beside()) return std::nullopt;
  auto [batch, flight] = new_batch();
  flight.covers = batch.covers_ = last_ticket_;
  flight.tickets = last_ticket_ - covered_;
  flight.bytes = journal.gathered_records();
  const bool synced = need.awaited || journal.sync_wanted;
  // The sync of another must not count for what this one has yet to write.
  flight.alone = journal.has_sealed() || !synced;
  take_records(journal, journal.sync_wanted, batch, flight);
  std::set<Slot> sync;
  if (synced) sync_records(journal, sync, flight);
  if (!broken(Breakage::skip_commit_sync)) add_syncs(sync, batch);
  if (broken(Breakage::recycle_before_save)) positions_.recycle_at_once();
  covered_ = last_ticket_;
  flush_journal_ = false;
  ++around_.figures.commits;
  around_.figures.commits_beside += journal_flights_.empty() ? 0 : 1;
  journal_flights_.push_back(std::move(flight));
  return std::move(batch);
}

std::optional<Batch> CommitLanes::others_batch(const Need& need) {
  if (other_flight_ || (!journal_flights_.empty() && journal_flights_.front().whole)) return std::nullopt;
  if (!need.sync_others && !need.lazy_others && !need.marks && !need.save) return std::nullopt;
  auto [batch, flight] = new_batch();
  std::set<Slot> sync;
  for (Log& log : logs_) {
    if (log.id() == kJournal) continue;
    if (need.save) positions_.close_if_empty(log);
    take_records(log, need.save, batch, flight);
    if (log.sync_wanted || need.save) sync_records(log, sync, flight);
  }
  std::vector<PendingMark> garbage;
  if (need.save || need.marks) garbage = take_marks();
  if (need.save) {
    positions_.begin(garbage);
    flight.save = Flight::Save::prepares;
    positions_.wait_for_journal();  // its own lane does the rest
  }
  write_marks(garbage, batch, flight);
  if (need.save) sync = pool_.dirty();
  if (need.save && broken(Breakage::positions_before_sync)) positions_.write(batch.steps_);
  add_syncs(sync, batch);
  flush_others_ = false;
  other_flight_ = std::move(flight);
  return std::move(batch);
}

std::optional<Batch> CommitLanes::positions_batch() {
  if (other_flight_ || !positions_.ready()) return std::nullopt;
  auto [batch, flight] = new_batch();
  positions_.write(batch.steps_);
  flight.save = Flight::Save::writes;
  other_flight_ = std::move(flight);
  return std::move(batch);
}

/// All logs in one, alone.
std::optional<Batch> CommitLanes::whole_batch(const Need& need) {
  if (!journal_flights_.empty() || other_flight_) return std::nullopt;
  if (!need.awaited && !need.lazy_journal && !need.lazy_others && !need.sync_others && !need.marks && !need.save)
    return std::nullopt;
  auto [batch, flight] = new_batch();
  flight.covers = batch.covers_ = last_ticket_;
  flight.alone = flight.whole = true;
  std::set<Slot> sync;
  for (Log& log : logs_) {
    if (need.save) positions_.close_if_empty(log);
    take_records(log, need.save, batch, flight);
    if (log.sync_wanted || need.save || (log.id() == kJournal && need.awaited)) sync_records(log, sync, flight);
  }
  std::vector<PendingMark> garbage;
  if (need.save || need.marks) garbage = take_marks();
  if (need.save) {
    positions_.begin(garbage);
    flight.save = Flight::Save::whole;
    flight.settles = need.settles;
  }
  write_marks(garbage, batch, flight);
  if (need.save) sync.insert(pool_.dirty().begin(), pool_.dirty().end());
  if (need.save && broken(Breakage::positions_before_sync)) positions_.write(batch.steps_);
  if (need.save || !broken(Breakage::skip_commit_sync)) add_syncs(sync, batch);
  if (need.save && !broken(Breakage::positions_before_sync)) positions_.write(batch.steps_);
  covered_ = last_ticket_;
  flush_journal_ = flush_others_ = false;
  ++around_.figures.commits;
  journal_flights_.push_back(std::move(flight));
  return std::move(batch);
}

std::optional<Batch> CommitLanes::pool_batch() {
  if (pool_flight_) return std::nullopt;
  const auto slot = pool_.next_allocation();
  if (!slot) return std::nullopt;
  auto [batch, flight] = new_batch();
  batch.steps_.push_back({BatchStep::Kind::allocate, *slot, around_.options.segment_size, {}, false});
  pool_flight_ = std::move(flight);
  return std::move(batch);
}

// --- parts of a batch ---

std::vector<PendingMark> CommitLanes::take_marks() {
  const Log& journal = logs_.journal();
  marks_.count_ready(journal.durable_to);  // recovery may have found some that are ready at once
  return marks_.take(journal.open() ? journal.uses().back() : 0);
}

void CommitLanes::take_records(Log& log, bool even_a_header, Batch& batch, Flight& flight) {
  log.hand_over(even_a_header, spare_buffers_, batch.steps_);
  flight.written.emplace_back(log.id(), log.end());
}

/// What was taken of the log is durable with this batch: its slot is added to `sync` if it was written to.
void CommitLanes::sync_records(Log& log, std::set<Slot>& sync, Flight& flight) {
  log.sync_wanted = false;
  runners_.each(log, [](LogRunner& runner) { runner.handed_to_sync(); });
  if (const auto slot = log.slot_to_sync()) sync.insert(*slot);
  log.sync_begins(log.end());
  flight.synced.emplace_back(log.id(), log.end());
}

void CommitLanes::add_syncs(const std::set<Slot>& slots, Batch& batch) {
  for (const Slot slot : slots) {
    batch.steps_.push_back({BatchStep::Kind::sync, slot, 0, {}, false});
    pool_.dirty().erase(slot);
    ++around_.figures.syncs;
  }
}

void CommitLanes::write_marks(const std::vector<PendingMark>& taken, Batch& batch, Flight& flight) {
  around_.figures.marks_written += taken.size();
  for (const PendingMark& mark : taken) {
    const Position at = mark.envelope;
    flight.marks.push_back(at);
    const SegmentHeader& segment = pool_.in_use().at(at.use).header;
    std::string word(4, '\0');
    store_le(reinterpret_cast<std::byte*>(word.data()), garbage_mark(segment, at.offset));
    batch.steps_.push_back({BatchStep::Kind::write, segment.slot, at.offset, std::move(word), false});
    pool_.dirty().insert(segment.slot);
  }
}

// --- what is so afterwards ---

void CommitLanes::complete(Batch batch) {
  for (BatchStep& step : batch.steps_) {
    if (step.kind != BatchStep::Kind::set_aside) continue;
    if (step.failed)
      damage_.note_left(step.slot, std::move(step.error));
    else
      pool_.damaged().forget(step.slot);
  }
  if (pool_flight_ && pool_flight_->number == batch.number_) {
    pool_flight_.reset();
    const BatchStep& step = batch.steps_.front();
    pool_.allocated(step.slot, step.failed);
  } else if (other_flight_ && other_flight_->number == batch.number_) {
    const Flight flight = *std::move(other_flight_);
    other_flight_.reset();
    take_back(flight);
  } else {
    complete_journal(batch);
  }
  if (broken(Breakage::acknowledge_early)) committed_ = last_ticket_;
}

void CommitLanes::complete_journal(Batch& batch) {
  const auto mine = std::find_if(journal_flights_.begin(), journal_flights_.end(),
                                 [&](const auto& f) { return f.number == batch.number_; });
  PEN_CHECK(mine != journal_flights_.end(), "a batch is completed once");
  mine->done = true;
  // Nothing is acknowledged before what was appended before it.
  while (!journal_flights_.empty() && journal_flights_.front().done) {
    const Flight flight = std::move(journal_flights_.front());
    journal_flights_.pop_front();
    take_back(flight);
  }
  keep_buffers(batch);
}

void CommitLanes::take_back(const Flight& flight) {
  for (const Position& at : flight.marks) marks_.written(at);
  for (const auto& [id, position] : flight.synced) {
    logs_[id].synced(position);
    logs_[id].sync_ends();
  }
  for (const auto& [id, position] : flight.written) logs_[id].written_to = position;
  marks_.count_ready(logs_.journal().durable_to);
  if (flight.save == Flight::Save::prepares) positions_.others_synced();
  if (flight.save == Flight::Save::writes || flight.save == Flight::Save::whole) positions_.saved();
  if (flight.covers != 0) committed_ = flight.covers;
  if (flight.settles) settled_ = true;
}

/// The memory of a commit serves the next one.
void CommitLanes::keep_buffers(Batch& batch) {
  for (BatchStep& step : batch.steps_) {
    if (step.bytes.size() < kLeastBuffer || step.bytes.capacity() > kMostBuffer ||
        spare_buffers_.size() == kJournalBatches)
      continue;
    step.bytes.clear();
    spare_buffers_.push_back(std::move(step.bytes));
  }
}

}  // namespace pen::queue_log
