#include "lib/queue_log/queue_log.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/queue_log/breakage.h"
#include "lib/queue_log/recovery.h"
#include "lib/queue_log/state.h"

namespace pen::queue_log {

std::vector<seconds> retry_ladder(seconds minimal, seconds maximal) {
  minimal = std::max(minimal, seconds(1));
  maximal = std::max(maximal, minimal);
  std::vector<seconds> ladder;
  for (seconds s = minimal; s < maximal && ladder.size() < 31; s *= 2) ladder.push_back(s);
  ladder.push_back(maximal);
  return ladder;
}

QueueLog::QueueLog(std::unique_ptr<State> state) : state_(std::move(state)) {}
QueueLog::~QueueLog() = default;

Result<std::unique_ptr<QueueLog>> QueueLog::open(Storage& storage, Options options, const Clock& clock,
                                                 Random& random) {
  PEN_CHECK(options.segment_size >= kMinSegment && options.segment_size <= kMaxSegment &&
            options.segment_size % 4096 == 0);
  PEN_CHECK(!options.intervals.empty() && options.intervals.size() <= 32);
  PEN_CHECK(std::is_sorted(options.intervals.begin(), options.intervals.end()));
  std::unique_ptr<QueueLog> log(new QueueLog(std::make_unique<State>(storage, std::move(options), clock, random)));
  log->state_->report = &log->report_;
  PEN_TRY(open_recovery(*log->state_, log->report_));
  State& s = *log->state_;
  if (broken(Breakage::append_after_torn_tail)) PEN_TRY(append_after_torn_tail(s));
  if (!s.logs[kJournal].open) PEN_TRY(s.roll(s.logs[kJournal]));
  s.scan_end = {s.logs[kJournal].uses.back(), s.logs[kJournal].cursor};
  return log;
}

// --- new mail ---

void QueueLog::State::note_fresh(const Position& position) {
  if (fresh_lost) return;
  if (fresh.size() >= kMaxFresh) {
    fresh_lost = position;
    return;
  }
  fresh.push_back({position, false});
}

bool QueueLog::has_space() const { return !failed_ && state_->has_space(); }

bool QueueLog::may_begin() const {
  const State& s = *state_;
  return s.working.empty() || s.begun_bytes < s.options.reserve || s.free.size() > s.reserve();
}

Result<QueueLog::Appended> QueueLog::append(const Envelope& envelope) {
  if (failed_) return fail(QueueLogError::io_error);
  State& s = *state_;
  PEN_CHECK(!envelope.queue_id.empty() && envelope.queue_id.size() <= kMaxQueueId);
  const RecentIds::Key id = s.accepted.key_of(envelope.queue_id);
  s.accepted.prefetch(id);  // until the body has been made
  Log& journal = s.logs[kJournal];
  const auto body = make_body(envelope, 0, s.clock.wall_now(), {});
  std::size_t gathered = journal.pending.size();
  for (const BatchStep& step : journal.left) gathered += step.bytes.size();
  if (const auto* known = s.accepted.find(id)) return Appended{known->ticket, {kJournal, known->position}, 0, true};
  // A receiver may ask after more than one death, and a drop file come back: what is being worked on is on the disk.
  if (const auto work = s.working.find(envelope.queue_id); work != s.working.end())
    return Appended{0, work->second.envelope, 0, true};
  if (const auto* known = s.begun.find(id)) return Appended{0, {kJournal, known->position}, 0, true};
  if (envelope.payload.size() > kMaxMessage) return fail(QueueLogError::too_large);
  if (!s.has_space()) return fail(QueueLogError::no_space);
  if (gathered > s.options.max_batch) return fail(QueueLogError::no_space);
  PEN_TRY_ASSIGN(const Position at, s.put_envelope(journal, body));
  s.note_fresh(at);
  const Ticket ticket = ++s.last_ticket;
  s.accepted.add_new(id, {ticket, at});
  return Appended{ticket, {kJournal, at}, replacement_size(body), false};
}

std::uint64_t QueueLog::next_save() const { return state_->positions_sequence + 1; }
std::uint64_t QueueLog::last_save() const { return state_->positions_sequence - (state_->saving ? 1 : 0); }

const Options& QueueLog::options() const { return state_->options; }

QueueLog::Figures QueueLog::figures() const {
  Figures f = state_->figures;
  f.segments_used = state_->segments.size();
  f.segments_free = state_->free.size();
  f.segments_reserved = std::min(state_->free.size(), state_->reserve());
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
