#pragma once
/// Saves the restart positions: where each log's runners are, and from where on a restart must read. Private to
/// lib/queue/queue_log.
///
/// Use:     if (positions.due()) positions.begin(garbage);     // takes the positions of this moment
///          …others_synced(); if (positions.ready()) positions.write(steps);
///          positions.saved();                                 // on the disk: segments that nothing needs are free
/// Order:   what the positions rely on is durable before they are written (other logs and marks, then the journal as
///          far as it went), and a segment is used again only after positions without it are on the disk.
/// Format:  docs/queue-format.md "positions".
#include <optional>
#include <string>
#include <vector>

#include "lib/queue/queue_log/fresh_mail.h"
#include "lib/queue/queue_log/log.h"
#include "lib/queue/queue_log/log_runner.h"
#include "lib/queue/queue_log/marks.h"
#include "lib/queue/queue_log/work_table.h"

namespace pen::queue_log {

/// Positions of one moment, to be written once all that was appended until then is durable.
struct Saving {
  std::string positions;
  Position journal_end;         // of that moment
  std::vector<Slot> condemned;  // free afterwards
  std::vector<Slot> aside;      // set aside afterwards
  bool others_synced = false;   // and the marks
};

class RestartPositions {
 public:
  RestartPositions(Surroundings& around, SegmentPool& pool, Logs& logs, LogRunners& runners, const FreshMail& fresh,
                   GarbageMarks& marks, const WorkTable& work)
      : around_(around), pool_(pool), logs_(logs), runners_(runners), fresh_(fresh), marks_(marks), work_(work) {}

  /// Numbers saves: the one that this start found.
  void go_on_from(std::uint64_t sequence) { sequence_ = sequence; }
  std::uint64_t next_save() const { return sequence_ + 1; }
  std::uint64_t last_save() const { return sequence_ - (saving_ ? 1 : 0); }

  void ask() { asked_ = true; }
  /// While somebody holds them no save begins, unless the disk is full.
  void hold() { ++holds_; }
  void let_go() { --holds_; }
  /// The save that ends recovery, once the record at `last` is durable.
  void settle_after(const Position& last) { settle_after_ = last; }
  bool settles() const;
  /// It was asked for, or much was appended, or the pool runs low: a save is what gives segments back.
  bool due() const;

  /// First record of the journal that a restart has to read.
  Position suffix_start() const;
  /// Below the reserve a retry log or the hold log gives even its open segment back, if its runners are at its end.
  void close_if_empty(Log& log);
  /// Takes the positions of this moment. `garbage`: the marks about to be written; some become needless.
  void begin(std::vector<PendingMark>& garbage);
  /// They are for the journal as it is now: it is synced for their sake.
  void wait_for_journal();
  void others_synced() { saving_->others_synced = true; }
  /// Everything that they rely on is durable.
  bool ready() const;
  void write(std::vector<BatchStep>& steps) const;
  void saved();
  /// Breakage::recycle_before_save.
  void recycle_at_once();

 private:
  Position runners_at(const Log& log) const;
  std::vector<Slot> condemn(std::vector<PendingMark>& taken);
  SavedPositions now() const;

  Surroundings& around_;
  SegmentPool& pool_;
  Logs& logs_;
  LogRunners& runners_;
  const FreshMail& fresh_;
  GarbageMarks& marks_;
  const WorkTable& work_;
  std::uint64_t sequence_ = 0;
  std::uint64_t grown_ = 0;  // Surroundings::grown at the last save
  bool asked_ = false;
  std::size_t holds_ = 0;
  std::optional<Position> settle_after_;
  std::optional<Saving> saving_;
};

}  // namespace pen::queue_log
