#pragma once
/// Brings messages from the queue log into the active set: one runner per log, which take turns.
///
/// State:   of each log whether its runner looks again at once, after the next commit, or at what time; which log has
///          the turn; the time of the last flush of everything.
/// Use:     run_one() while there is room; wake(), due_at() and put_off() when something changed in a log.
/// Rules:   new and deferred mail are admitted alternately; the retry logs take turns among themselves. Nothing runs in
///          the hold log.
#include <optional>
#include <vector>

#include "qmgr/admission.h"
#include "qmgr/reports.h"
#include "qmgr/surroundings.h"

namespace pen::qmgr {

class Runners {
 public:
  Runners(const Surroundings& around, Admission& admission, Reports& reports);

  /// There may be something at the head of this log.
  void wake(queue_log::LogId log) { runners_[log].look = true; }
  /// Messages left the logs behind the runners' backs: they look whether their heads are still there, so that segments
  /// that hold nothing any more are given back.
  void look_again();
  /// A message was put into this log.
  void due_at(queue_log::LogId log, WallTime due);
  /// The head of this log could not be begun.
  void put_off(queue_log::LogId log, Admission::Begun why);
  void commit_came();
  /// Every message that waits for a retry is due now: one mark per retry log.
  void flush_all();

  /// Takes one message that is due into the active set. False: none is.
  bool run_one();
  bool any_due() const;
  /// When something will be due; kNever: it is not known.
  SteadyTime wake_at() const;

 private:
  struct Runner {
    bool look = true;              // ask the log with the next turn
    std::optional<WallTime> next;  // when its head is due
    bool after_commit = false;     // ask again when the batch is back
    bool due(WallTime now) const { return look || (next && *next <= now); }
  };
  bool run(queue_log::LogId log);
  bool run_a_retry_log(WallTime now);
  bool take(queue_log::LogId log, queue_log::Stored&& stored);

  const Surroundings& around_;
  Admission& admission_;
  Reports& reports_;
  std::vector<Runner> runners_;
  bool journal_turn_ = true;
  std::size_t retry_turn_ = 0;
  // what was deferred before that is tried even if defer_transports says no
  WallTime flushed_at_{};
};

}  // namespace pen::qmgr
