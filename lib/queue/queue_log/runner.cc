// The calls that find and read messages: runners, and versions by their place.
#include <algorithm>

#include "lib/base/check.h"
#include "lib/queue/queue_log/state.h"

namespace pen::queue_log {

Result<Stored> QueueLog::Runners::read(const Place& place) {
  State& s = *state_;
  if (place.log >= s.logs.size() || !s.pool.in_use().contains(place.position.use))
    return fail(QueueLogError::not_found);
  auto read = s.envelopes.read(place);
  if (!read && read.error().is(QueueLogError::damaged)) s.damage.note_lost(place);
  PEN_TRY_ASSIGN(Stored stored, std::move(read));
  const Working* work = s.work.find(stored.envelope.queue_id);
  if (work != nullptr && work->envelope == place) return stored;
  PEN_TRY_ASSIGN(const bool gone, s.envelopes.gone(place.position));
  if (gone) return fail(QueueLogError::not_found);
  return stored;
}

bool QueueLog::Runners::durable(const Place& place) const {
  return place.log < state_->logs.size() && place.position < state_->logs[place.log].durable_to;
}

std::size_t QueueLog::Runners::log_count() const { return state_->runners.size(); }
seconds QueueLog::Runners::interval(LogId log) const {
  PEN_CHECK(log < state_->runners.size());
  return state_->runners[log].interval();
}

void QueueLog::Runners::make_due() {
  State& s = *state_;
  for (Log& log : s.logs)
    if (log.id() >= kFirstRetry) log.make_due();
  for (LogRunner& runner : s.runners)
    if (runner.log().id() >= kFirstRetry) runner.make_due(s.around.clock.wall_now());
}

LogId QueueLog::Runners::retry_log_for(seconds delay) const {
  const auto& intervals = state_->around.options.intervals;
  const auto it = std::lower_bound(intervals.begin(), intervals.end(), delay);
  const auto index = it == intervals.end() ? intervals.size() - 1 : static_cast<std::size_t>(it - intervals.begin());
  return static_cast<LogId>(kFirstRetry + index);
}

LogId QueueLog::Runners::retry_log_within(seconds delay) const {
  const auto& intervals = state_->around.options.intervals;
  const auto it = std::upper_bound(intervals.begin(), intervals.end(), delay);
  return static_cast<LogId>(kFirstRetry + (it == intervals.begin() ? 0 : it - intervals.begin() - 1));
}

Result<Due> QueueLog::Runners::next_due(LogId id, WallTime now) {
  State& s = *state_;
  if (s.around.failed) return fail(QueueLogError::io_error);
  if (s.stage() != Recovery::done) return fail(QueueLogError::recovering);
  PEN_CHECK(id < s.runners.size() && id != kHold);
  if (s.logs[kHold].thinned) PEN_TRY(s.hold.sweep());
  auto due = s.runners[id].next(now);
  if (due) return due;
  s.around.failed = true;
  return fail(QueueLogError::io_error, due.error().message(), due.error().sys_errno());
}

Result<QueueLog::Compaction> QueueLog::compact_held(std::size_t budget) {
  State& s = *state_;
  if (s.around.failed) return fail(QueueLogError::io_error);
  if (s.stage() != Recovery::done) return Compaction::idle;
  return s.hold.step(budget);
}

}  // namespace pen::queue_log
