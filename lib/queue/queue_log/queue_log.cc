#include "lib/queue/queue_log/queue_log.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/queue/queue_log/breakage.h"
#include "lib/queue/queue_log/recovery.h"
#include "lib/queue/queue_log/state.h"

namespace pen::queue_log {

std::vector<seconds> retry_ladder(seconds minimal, seconds maximal) {
  minimal = std::max(minimal, seconds(1));
  maximal = std::max(maximal, minimal);
  std::vector<seconds> ladder;
  for (seconds s = minimal; s < maximal && ladder.size() < 31; s *= 2) ladder.push_back(s);
  ladder.push_back(maximal);
  return ladder;
}

std::vector<seconds> with_release_logs(std::vector<seconds> ladder, seconds longest) {
  constexpr std::size_t kMost = 32;
  while (ladder.front() / 4 >= kLastSeconds && ladder.size() < kMost) ladder.insert(ladder.begin(), ladder.front() / 4);
  while (ladder.back() * 4 <= longest && ladder.size() < kMost) ladder.push_back(ladder.back() * 4);
  return ladder;
}

QueueLog::QueueLog(std::unique_ptr<State> state)
    : state_(std::move(state)),
      commits_(new Commits(*state_)),
      restart_(new Restart(*state_)),
      runners_(new Runners(*state_)),
      work_(new Work(*state_)) {}
QueueLog::~QueueLog() = default;

Result<std::unique_ptr<QueueLog>> QueueLog::open(Storage& storage, Options options, const Clock& clock,
                                                 Random& random) {
  PEN_CHECK(options.segment_size >= kMinSegment && options.segment_size <= kMaxSegment &&
            options.segment_size % 4096 == 0);
  PEN_CHECK(!options.intervals.empty() && options.intervals.size() <= 32);
  PEN_CHECK(std::is_sorted(options.intervals.begin(), options.intervals.end()));
  std::unique_ptr<QueueLog> log(new QueueLog(std::make_unique<State>(storage, std::move(options), clock, random)));
  State& s = *log->state_;
  PEN_TRY(open_recovery(s));
  Log& journal = s.logs.journal();
  if (broken(Breakage::append_after_torn_tail)) PEN_TRY(append_after_torn_tail(s));
  if (!journal.open()) PEN_TRY(journal.roll());
  s.fresh.set_read_to(journal.end());
  return log;
}

Log& QueueLog::State::add_log(std::int64_t disk_interval, const std::vector<seconds>& intervals) {
  Log& log = logs.add(disk_interval);
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    LogRunner::Interval interval{.own = intervals[i]};
    // An interval that is no longer configured belongs to the next longer one, or the longest.
    if (log.shared() && i > 0) interval.over = intervals[i - 1];
    if (log.shared() && i + 1 < intervals.size()) interval.upto = intervals[i];
    runners.add({log, interval, around, envelopes, damage, log.id() == kJournal ? &fresh : nullptr});
  }
  return log;
}

// --- new mail ---

WallTime QueueLog::known_since() { return state_->ids.known_since(state_->around.clock.wall_now()); }
bool QueueLog::has_space() const { return !state_->around.failed && state_->pool.has_space(); }
bool QueueLog::disk_full() const { return state_->around.failed || state_->pool.starved(); }

Result<QueueLog::Appended> QueueLog::append(const Envelope& envelope) {
  State& s = *state_;
  if (s.around.failed) return fail(QueueLogError::io_error);
  PEN_CHECK(!envelope.queue_id.empty() && envelope.queue_id.size() <= kMaxQueueId);
  RecentIds& accepted = s.ids.accepted;
  const RecentIds::Key id = accepted.key_of(envelope.queue_id);
  accepted.prefetch(id);  // until the body has been made
  Log& journal = s.logs.journal();
  const auto body = make_body(envelope, 0, s.around.clock.wall_now(), {});
  const std::uint64_t gathered = journal.gathered();
  const auto other = [&](const RecentIds::Accepted& known) {
    return known.arrived != WallTime::min() && known.arrived != envelope.arrived;
  };
  if (const auto* known = accepted.find(id))
    return Appended{known->ticket, {kJournal, known->position}, 0, true, other(*known)};
  // A receiver may ask after more than one death, and a drop file come back: what is being worked on is on the disk.
  if (const Working* work = s.work.find(envelope.queue_id)) return Appended{0, work->envelope, 0, true};
  if (const auto* known = s.ids.begun.find(id)) return Appended{0, {kJournal, known->position}, 0, true, other(*known)};
  if (envelope.payload.size() > kMaxMessage) return fail(QueueLogError::too_large);
  if (!s.pool.has_space()) return fail(QueueLogError::no_space);
  if (gathered > s.around.options.max_batch) return fail(QueueLogError::no_space);
  PEN_TRY_ASSIGN(const Position at, journal.put_envelope(body));
  s.fresh.add(at);
  const Ticket ticket = s.lanes.next_ticket();
  accepted.add_new(id, {ticket, at, envelope.arrived});
  return Appended{ticket, {kJournal, at}, replacement_size(body), false};
}

// --- commits ---

std::optional<Batch> QueueLog::Commits::next_batch() {
  if (state_->around.failed) return std::nullopt;
  return state_->lanes.next();
}

Result<Ticket> QueueLog::Commits::complete(Batch batch, Result<void> executed) {
  State& s = *state_;
  if (s.around.failed) return fail(QueueLogError::io_error);  // the process ends: nothing counts any more
  if (!executed) {
    s.around.failed = true;
    return fail(QueueLogError::io_error, executed.error().message(), executed.error().sys_errno());
  }
  s.lanes.complete(std::move(batch));
  if (s.lanes.settled()) s.recovering.reset();
  for (Log& log : s.logs) PEN_TRY(s.work.settle_moves(log));
  return s.lanes.committed();
}

Ticket QueueLog::Commits::committed() const { return state_->lanes.committed(); }
bool QueueLog::failed() const { return state_->around.failed; }
void QueueLog::Commits::flush() { state_->lanes.flush(); }
void QueueLog::Commits::save_positions() { state_->positions.ask(); }
std::uint64_t QueueLog::Commits::next_save() const { return state_->positions.next_save(); }
std::uint64_t QueueLog::Commits::last_save() const { return state_->positions.last_save(); }
void QueueLog::Commits::hold_positions() { state_->positions.hold(); }
void QueueLog::Commits::release_positions() { state_->positions.let_go(); }
LogEnds QueueLog::Commits::durable_ends() const {
  LogEnds ends;
  for (const Log& log : state_->logs) ends.push_back({log.disk_interval(), log.durable_to});
  return ends;
}

// --- what it is like ---

const Options& QueueLog::options() const { return state_->around.options; }

Figures QueueLog::figures() const {
  const State& s = *state_;
  Figures f = s.around.figures;
  f.segments_used = s.pool.in_use().size();
  f.segments_free = s.pool.free();
  f.segments_reserved = std::min(s.pool.free(), s.pool.reserve());
  const Position end = s.logs.journal().end();
  const Position start = s.positions.suffix_start();
  for (const SegmentUse use : s.logs.journal().uses()) {
    if (use < start.use) continue;
    const std::uint64_t from = use == start.use ? start.offset : 0;
    f.suffix_bytes += (use == end.use ? end.offset : s.around.options.segment_size) - from;
  }
  return f;
}

}  // namespace pen::queue_log
