#pragma once
/// Walks a log from its oldest record on, to the first version that lives and is not being worked on. Private to
/// lib/queue/queue_log.
///
/// Use:     auto due = runner.next(now);              // the head, or when it will be due
///          runner.wrote(replacement, now);           // a replacement was appended for it
/// Which:   the journal, the hold log and each retry log have one; a shared retry log has one per interval, which
///          passes over what belongs to the others. That of the hold log has no timer: HoldCompaction moves it.
/// Sources: the head it found before; of the journal, new mail that need not be read (FreshMail); else a reader.
/// Errors:  of the storage. Damage on the way is noted and passed over.
#include <deque>
#include <memory>
#include <optional>

#include "lib/queue/queue_log/damage.h"
#include "lib/queue/queue_log/fresh_mail.h"
#include "lib/queue/queue_log/log.h"
#include "lib/queue/queue_log/queue_log.h"
#include "lib/queue/queue_log/stored.h"

namespace pen::queue_log {

class LogRunner {
 public:
  /// Versions with an interval in (over, upto] are its own.
  struct Interval {
    seconds own{0};
    seconds over{-1};
    seconds upto{seconds::max()};
  };
  /// `fresh`: of the journal; nullptr for others.
  LogRunner(Log& log, Interval interval, Surroundings& around, const StoredEnvelopes& envelopes, DamageNotes& damage,
            FreshMail* fresh)
      : log_(log), interval_(interval), around_(around), envelopes_(envelopes), damage_(damage), fresh_(fresh) {}

  Log& log() { return log_; }
  const Log& log() const { return log_; }
  seconds interval() const { return interval_.own; }
  /// Nothing of its own that lives lies below it, but what is being worked on.
  const Position& at() const { return at_; }
  void move_to(const Position& at) { at_ = at; }
  /// The first version that lives and is not being worked on, looking at a slice of the log.
  Result<Due> next(WallTime now);

  /// It is at the end of its log, and knows of nothing to come.
  bool at_end(const Position& end) const { return at_ == end && !head_; }
  /// The log's segments were given back: it begins anew there.
  void restart_at(const Position& at);
  void make_due(WallTime now);
  void wrote(const Position& replacement, WallTime now);
  /// All that was written for it was handed to a sync.
  void handed_to_sync() { first_unsynced_.reset(); }

 private:
  using Found = Result<std::optional<Due>>;  // nullopt: look further
  Found head(WallTime now);
  Found fresh();
  Found record(WallTime now);
  Due unsynced(WallTime now);
  bool owns(const LogReader::Record& record) const;
  void pass_record() { at_ = reader_->at(); }

  Log& log_;
  Interval interval_;
  Surroundings& around_;
  const StoredEnvelopes& envelopes_;
  DamageNotes& damage_;
  FreshMail* fresh_;
  Position at_;
  std::unique_ptr<LogReader> reader_;
  Position reader_limit_;
  std::optional<Position> head_;  // a live version found and not yet started
  WallTime head_due_;
  Position last_;  // the newest replacement written for it by this process
  // when the oldest of those not yet handed to a sync was appended
  std::optional<WallTime> first_unsynced_;
};

/// All runners, in order of their LogId: of the journal, of the hold log, one per configured interval; then of logs
/// left over from another configuration.
class LogRunners {
 public:
  void add(LogRunner runner) { runners_.push_back(std::move(runner)); }
  std::size_t size() const { return runners_.size(); }
  LogRunner& operator[](LogId id) { return runners_[id]; }
  const LogRunner& operator[](LogId id) const { return runners_[id]; }
  auto begin() { return runners_.begin(); }
  auto end() { return runners_.end(); }
  template <class Function>
  void each(const Log& log, Function&& function) {
    for (LogRunner& runner : runners_)
      if (&runner.log() == &log) function(runner);
  }
  /// Nothing below it is needed by a runner of the log. (Of the journal FreshMail says what is needed.)
  Position all_at(const Log& log) const {
    Position least = log.end();
    for (const LogRunner& runner : runners_)
      if (&runner.log() == &log) least = std::min(least, runner.at());
    return least;
  }

 private:
  std::deque<LogRunner> runners_;
};

}  // namespace pen::queue_log
