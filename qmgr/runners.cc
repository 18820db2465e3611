#include "qmgr/runners.h"

#include <algorithm>

namespace pen::qmgr {

using queue_log::kFirstRetry;
using queue_log::kHold;
using queue_log::kJournal;

Runners::Runners(const Surroundings& around, Admission& admission, Reports& reports)
    : around_(around), admission_(admission), reports_(reports), runners_(around.log.runners().log_count()) {
  runners_[kHold].look = false;  // nothing runs there
}

void Runners::look_again() {
  for (std::size_t id = kFirstRetry; id < runners_.size(); ++id) runners_[id].look = true;
}

void Runners::due_at(queue_log::LogId log, WallTime due) {
  Runner& r = runners_[log];
  r.next = r.next ? std::min(*r.next, due) : due;
}

void Runners::put_off(queue_log::LogId log, Admission::Begun why) {
  Runner& r = runners_[log];
  r.look = why == Admission::Begun::superseded;
  if (why == Admission::Begun::moving) r.after_commit = true;
  if (why == Admission::Begun::no_space) r.next = around_.now() + seconds(1);
}

void Runners::commit_came() {
  for (Runner& r : runners_) {
    r.look = r.look || r.after_commit;
    r.after_commit = false;
  }
}

void Runners::flush_all() {
  flushed_at_ = around_.now();
  around_.log.runners().make_due();
  wake(kJournal);
  look_again();
}

bool Runners::any_due() const {
  const WallTime now = around_.now();
  return std::any_of(runners_.begin(), runners_.end(), [now](const Runner& r) { return r.due(now); });
}

bool Runners::run_one() {
  const WallTime now = around_.now();
  for (int side = 0; side < 2; ++side) {
    journal_turn_ = !journal_turn_;
    if (journal_turn_ ? runners_[kJournal].due(now) && run(kJournal) : run_a_retry_log(now)) return true;
  }
  return false;
}

bool Runners::run_a_retry_log(WallTime now) {
  const std::size_t logs = runners_.size() - kFirstRetry;
  for (std::size_t k = 0; k < logs; ++k) {
    retry_turn_ = (retry_turn_ + 1) % logs;
    const auto id = static_cast<queue_log::LogId>(kFirstRetry + retry_turn_);
    Runner& r = runners_[id];
    if (!r.due(now)) continue;
    if (run(id)) return true;
    if (r.next && *r.next <= now) {
      // Due now and not shown: it waits for the sync that was just asked for.
      r.next.reset();
      r.after_commit = true;
    }
  }
  return false;
}

bool Runners::run(queue_log::LogId id) {
  auto due = around_.log.runners().next_due(id, around_.now());
  if (!due) {
    if (due.error().is(queue_log::QueueLogError::recovering)) return false;
    around_.ports.fatal(due.error());
  }
  Runner& r = runners_[id];
  r.look = due->more || due->message.has_value();
  r.next = due->next;
  if (!due->message) return due->more;
  return take(id, *std::move(due->message));
}

bool Runners::take(queue_log::LogId log, queue_log::Stored&& stored) {
  const auto begun = admission_.begun(stored.envelope.queue_id, around_.log.work().start(stored));
  if (begun != Admission::Begun::yes) {
    put_off(log, begun);
    return runners_[log].look;
  }
  const bool flushed = stored.appended <= flushed_at_ && stored.place.log != kJournal;
  auto m = admission_.read(std::move(stored));
  if (!m) return true;
  // A notice from before a restart may be gone when its message asks what is still owed.
  reports_.seen(m->envelope());
  const MessageNumber number = admission_.admit(std::move(m)).number;
  if (flushed) around_.scheduler.override_deferral(number);
  return true;
}

SteadyTime Runners::wake_at() const {
  SteadyTime at = kNever;
  const SteadyTime now = around_.clock.now();
  for (const Runner& r : runners_) {
    if (r.look) return now;
    // At most a minute at once: the wall clock may be set meanwhile.
    if (r.next)
      at = std::min(at, now + std::clamp<microseconds>(*r.next - around_.now(), microseconds(0), seconds(60)));
  }
  return at;
}

}  // namespace pen::qmgr
