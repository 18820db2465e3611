#pragma once
/// What only the hold log has: no timer, and messages that may stay in it for years. Private to lib/queue/queue_log.
///
/// Use:     if (log.thinned) hold.sweep();               // its runner goes on to the first version still on hold
///          auto state = hold.step(budget);              // QueueLog::compact_held()
/// Passes:  a log is read that has twice the segments that what lived in it when last counted would fill, or of
///          which half of what lived then has left. If less than half of it lives, it is read again, and what lives is
///          written anew at its end, oldest first.
/// Errors:  of the storage.
#include "lib/queue/queue_log/damage.h"
#include "lib/queue/queue_log/log_runner.h"
#include "lib/queue/queue_log/stored.h"
#include "lib/queue/queue_log/work_table.h"

namespace pen::queue_log {

class HoldCompaction {
 public:
  HoldCompaction(Surroundings& around, SegmentPool& pool, Logs& logs, LogRunners& runners, WorkTable& work,
                 const GarbageMarks& marks, const StoredEnvelopes& envelopes, DamageNotes& damage)
      : around_(around),
        pool_(pool),
        logs_(logs),
        runners_(runners),
        work_(work),
        marks_(marks),
        envelopes_(envelopes),
        damage_(damage) {}

  /// What left the log gives its segments back: the runner stops at the first version that is still on hold.
  Result<void> sweep();
  Result<QueueLog::Compaction> step(std::size_t budget);

 private:
  enum class Pass : std::uint8_t { none, counts, moves };
  bool worth_counting() const;
  void begin(Pass pass);
  Result<bool> read(std::size_t budget);
  Result<bool> move(const LogReader::Record& record);

  Surroundings& around_;
  SegmentPool& pool_;
  Logs& logs_;
  LogRunners& runners_;
  WorkTable& work_;
  const GarbageMarks& marks_;
  const StoredEnvelopes& envelopes_;
  DamageNotes& damage_;
  Pass pass_ = Pass::none;
  std::size_t segments_ = 0;           // that what lives would fill, when last counted
  std::uint64_t versions_ = 0;         // that lived then
  std::uint64_t taken_out_ = 0;        // Log::taken_out when that count began
  Position at_, until_;                // of the pass: it is here, and ends there
  std::uint64_t living_ = 0;           // bytes of what it met that lives
  std::uint64_t living_versions_ = 0;  // and how many they are
};

}  // namespace pen::queue_log
