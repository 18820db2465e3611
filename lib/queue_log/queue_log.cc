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
}  // namespace

std::vector<seconds> retry_ladder(seconds minimal, seconds maximal) {
  minimal = std::max(minimal, seconds(1));
  maximal = std::max(maximal, minimal);
  std::vector<seconds> ladder;
  for (seconds s = minimal; s < maximal && ladder.size() < 31; s *= 2) ladder.push_back(s);
  ladder.push_back(maximal);
  return ladder;
}

Result<void> Batch::execute(Storage& storage) {
  bool full = false;
  for (BatchStep& step : steps_) {
    switch (step.kind) {
      case BatchStep::Kind::write:
        PEN_TRY(storage.write(step.slot, step.offset, as_bytes(step.bytes)));
        break;
      case BatchStep::Kind::sync:
        PEN_TRY(storage.sync(step.slot));
        break;
      case BatchStep::Kind::allocate:
        // The first that does not fit ends it: slots are numbered without gaps.
        if (full) {
          step.failed = true;
        } else if (auto made = storage.allocate(step.slot, step.offset); !made) {
          if (!made.error().is_errno(ENOSPC) && !made.error().is_errno(EDQUOT)) return made;
          full = step.failed = true;
        }
        break;
      case BatchStep::Kind::set_aside:
        step.failed = !storage.set_aside(step.slot);
        break;
    }
  }
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

namespace {

using Steps = std::vector<BatchStep>;

/// What a commit does besides writing what was appended.
struct Plan {
  bool awaited = false;  // somebody waits for a ticket
  bool save = false;     // restart positions
  bool settles = false;  // with them recovery ends
  std::size_t allocate = 0;
};

/// Whether the logs have something that is worth a commit by itself. Marks those whose moving messages want a sync.
bool worth_a_commit(QueueLog::State& s, bool flush_wanted) {
  bool sync_wanted = false;
  std::uint64_t gathered = 0;
  for (Log& log : s.logs) {
    // A quiet queue settles: a message on its way to a retry log is not left between two versions.
    if (log.moving.size() > kMovesEnough || (flush_wanted && !log.moving.empty()))
      log.sync_wanted = true;
    sync_wanted = sync_wanted || log.sync_wanted;
    gathered += log.pending.size() - (log.taken == 0 && log.open ? kDataStart : 0);
    for (const auto& step : log.left) gathered += step.bytes.size();
  }
  return sync_wanted || gathered >= kLazyEnough || (flush_wanted && gathered > 0) ||
         s.ready_marks >= kMarksInMemory;
}

bool wants_save(const QueueLog::State& s, bool flush_wanted) {
  if (s.since_save >= s.options.save_every) return true;
  // Positions are also saved when the pool runs low: that is what gives segments back.
  if (s.free.size() <= s.reserve_segments && s.since_save >= s.options.segment_size / 4)
    return true;
  // Below the reserve a quiet queue must get its segments back too, or mail would be refused for ever.
  return !s.has_space() && flush_wanted;
}

std::size_t segments_to_allocate(const QueueLog::State& s) {
  const std::size_t target = s.reserve_segments + s.spare_segments;
  if (s.free.size() >= target || (s.allocation_failed && s.clock.now() < s.allocation_retry))
    return 0;
  return std::min(target - s.free.size(), kAllocateAtOnce);
}

/// Writes of everything appended since the last commit. Returns the slots to sync for those who wait.
std::vector<Slot> write_logs(QueueLog::State& s, const Plan& plan, QueueLog::State::Flight& flight,
                             Steps& steps) {
  std::vector<Slot> sync;
  for (Log& log : s.logs) {
    for (BatchStep& step : log.left) {
      if (step.kind == BatchStep::Kind::sync)
        s.dirty.erase(step.slot);
      else
        s.dirty.insert(step.slot);
      steps.push_back(std::move(step));
    }
    log.left.clear();
    const Slot slot = log.open ? s.segments.at(log.uses.back()).header.slot : 0;
    // A header waits for the first record (or for positions that list it): a segment that was opened and never used
    // leaves nothing on the disk.
    if (!log.pending.empty() && (log.cursor != kDataStart || plan.save)) {
      const std::uint32_t at = log.taken;
      log.taken = log.cursor;
      steps.push_back({BatchStep::Kind::write, slot, at, std::move(log.pending), false});
      log.pending.clear();
      s.dirty.insert(slot);
    }
    flight.written.emplace_back(log.id, log.end());
    if (!log.sync_wanted && !plan.save && !(log.id == kJournal && plan.awaited)) continue;
    log.sync_wanted = false;
    s.each_runner(log.id, [](Runner& runner) { runner.first_unsynced.reset(); });
    if (slot != 0 && s.dirty.contains(slot)) sync.push_back(slot);
    flight.synced.emplace_back(log.id, log.end());
  }
  return sync;
}

void write_marks(QueueLog::State& s, const std::vector<PendingMark>& marks,
                 QueueLog::State::Flight& flight, Steps& steps) {
  for (const PendingMark& mark : marks) {
    const Position at = mark.envelope;
    flight.marks.push_back(at);
    const SegmentHeader& segment = s.segments.at(at.use).header;
    std::string word(4, '\0');
    store_le(reinterpret_cast<std::byte*>(word.data()), garbage_mark(segment, at.offset));
    steps.push_back({BatchStep::Kind::write, segment.slot, at.offset, std::move(word), false});
    s.dirty.insert(segment.slot);
  }
}

void sync_slots(QueueLog::State& s, const std::vector<Slot>& slots, Steps& steps) {
  for (const Slot slot : slots) {
    steps.push_back({BatchStep::Kind::sync, slot, 0, {}, false});
    s.dirty.erase(slot);
    ++s.figures.syncs;
  }
}

/// Restart positions, which must not be on the disk before what they speak of: the steps from `before_syncs` on sync it.
void write_positions(QueueLog::State& s, std::size_t before_syncs, Steps& steps) {
  ++s.positions_sequence;
  const std::string bytes = encode_positions(s.positions());
  PEN_CHECK(bytes.size() <= kPositionsCopy);
  BatchStep write{
      BatchStep::Kind::write, kPositionsSlot,
      broken(Breakage::positions_in_one_place) ? 0 : s.positions_sequence % 2 * kPositionsCopy,
      bytes, false};
  BatchStep settle{BatchStep::Kind::sync, kPositionsSlot, 0, {}, false};
  const auto at = broken(Breakage::positions_before_sync)
                      ? steps.begin() + static_cast<std::ptrdiff_t>(before_syncs)
                      : steps.end();
  steps.insert(steps.insert(at, std::move(write)) + 1, std::move(settle));
  ++s.figures.syncs;
  s.since_save = 0;
  // Positions that need them no more, and say that they are damaged, are on the disk first.
  for (const Slot slot : s.aside) steps.push_back({BatchStep::Kind::set_aside, slot, 0, {}, false});
  s.aside.clear();
}

}  // namespace

std::optional<Batch> QueueLog::next_batch() {
  State& s = *state_;
  if (failed_ || s.flight) return std::nullopt;
  Plan plan;
  plan.awaited = s.last_ticket > s.covered;
  plan.settles = s.settle_wanted && recovery_ == Recovery::settling;
  // The old positions hold until recovery has ended.
  plan.save = plan.settles ||
              (recovery_ == Recovery::done && (save_wanted_ || wants_save(s, flush_wanted_)));
  plan.allocate = segments_to_allocate(s);
  const bool worth = worth_a_commit(s, flush_wanted_);
  if (!plan.awaited && !plan.save && plan.allocate == 0 && !worth) return std::nullopt;

  Batch batch;
  State::Flight flight;
  flight.covers = batch.covers_ = s.last_ticket;
  std::vector<Slot> sync = write_logs(s, plan, flight, batch.steps_);
  std::vector<PendingMark> marks;
  if (plan.save || s.ready_marks >= kMarksInMemory) marks = s.take_marks();
  if (plan.save) s.condemn(flight, marks);
  write_marks(s, marks, flight, batch.steps_);
  if (plan.save) sync.assign(s.dirty.begin(), s.dirty.end());
  const std::size_t before_syncs = batch.steps_.size();
  if (!broken(Breakage::skip_commit_sync) || plan.save) sync_slots(s, sync, batch.steps_);
  if (!plan.save && broken(Breakage::recycle_before_save)) s.condemn(flight, marks);
  if (plan.save) {
    write_positions(s, before_syncs, batch.steps_);
    flight.save = true;
    flight.settles = plan.settles;
    s.settle_wanted = s.settle_wanted && !plan.settles;
    save_wanted_ = false;
  }
  flush_wanted_ = false;
  for (std::size_t n = 0; n < plan.allocate; ++n) {
    flight.allocating.push_back(++s.last_slot);
    batch.steps_.push_back(
        {BatchStep::Kind::allocate, s.last_slot, s.options.segment_size, {}, false});
  }
  s.covered = s.last_ticket;
  ++s.figures.commits;
  s.flight = std::move(flight);
  return batch;
}

Result<Ticket> QueueLog::complete(Batch batch, Result<void> executed) {
  State& s = *state_;
  PEN_CHECK(s.flight.has_value());
  State::Flight flight = *std::move(s.flight);
  s.flight.reset();
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
  return state_->positions_sequence - (state_->flight && state_->flight->save ? 1 : 0);
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
