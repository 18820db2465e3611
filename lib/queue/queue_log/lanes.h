#pragma once
/// Commits: what is to be written, in which order, and what is so once it was. Private to lib/queue/queue_log.
///
/// Use:     const Ticket ticket = lanes.next_ticket();      // for a record that somebody waits for
///          while (auto batch = lanes.next()) …             // several may be in hand
///          lanes.complete(batch);                          // executed: what it wrote is so
/// Lanes:   three, so that a sender who waits for one message waits for nothing else:
///          - the journal: new mail and what is said about mail, a write and a sync; several commits at once;
///          - the other logs, garbage marks and the restart positions: one batch at a time;
///          - the pool: a segment that is made.
///          Only while recovery runs, and for messages put on hold (which wait for two logs), one batch does it all.
#include <deque>
#include <optional>
#include <set>
#include <vector>

#include "lib/queue/queue_log/damage.h"
#include "lib/queue/queue_log/restart_positions.h"

namespace pen::queue_log {

/// What is to be remembered of a batch while it is in hand.
struct Flight {
  /// Its part in a save of restart positions.
  enum class Save : std::uint8_t {
    none,
    prepares,  // syncs what the positions rely on outside the journal
    writes,
    whole,
  };
  std::uint64_t number = 0;  // the batch's
  bool done = false;         // executed; waits for those before it
  Ticket covers = 0;
  std::vector<std::pair<LogId, Position>> synced;  // durable up to here afterwards
  std::vector<std::pair<LogId, Position>> written;
  std::vector<Position> marks;
  bool alone = false;       // no other for the journal beside it: it ends a segment, or does not sync
  bool whole = false;       // it is for all logs
  std::uint64_t bytes = 0;  // of the journal
  Ticket tickets = 0;
  Save save = Save::none;
  bool settles = false;
};

class CommitLanes {
 public:
  /// Commits of the journal that may be at their sync at the same time.
  static constexpr std::size_t kJournalBatches = QueueLog::kJournalBatches;

  CommitLanes(Surroundings& around, SegmentPool& pool, DamageNotes& damage, Logs& logs, LogRunners& runners,
              GarbageMarks& marks, RestartPositions& positions)
      : around_(around),
        pool_(pool),
        damage_(damage),
        logs_(logs),
        runners_(runners),
        marks_(marks),
        positions_(positions) {}

  Ticket next_ticket() { return ++last_ticket_; }
  /// It waits for the hold log as well.
  Ticket next_hold_ticket() { return last_hold_ = ++last_ticket_; }
  /// Every ticket up to this one is durable.
  Ticket committed() const { return committed_; }
  /// The save that ends recovery is on the disk.
  bool settled() const { return settled_; }

  std::optional<Batch> next();
  void complete(Batch batch);
  void flush() { flush_journal_ = flush_others_ = true; }

 private:
  /// What a batch has to do now.
  struct Need {
    bool awaited = false;       // somebody waits for records of the journal
    bool lazy_journal = false;  // enough has gathered in it that nobody waits for, or all is wanted on the disk
    bool sync_others = false;   // other logs want a sync
    bool lazy_others = false;
    bool marks = false;  // too many in memory
    bool save = false;
    bool settles = false;  // the save ends recovery
  };

  Need needs();
  std::pair<Batch, Flight> new_batch();
  bool may_go_beside() const;
  std::optional<Batch> journal_batch(const Need& need);
  std::optional<Batch> others_batch(const Need& need);
  std::optional<Batch> positions_batch();
  std::optional<Batch> whole_batch(const Need& need);
  std::optional<Batch> pool_batch();
  std::vector<PendingMark> take_marks();
  void take_records(Log& log, bool even_a_header, Batch& batch, Flight& flight);
  void sync_records(Log& log, std::set<Slot>& sync, Flight& flight);
  void add_syncs(const std::set<Slot>& slots, Batch& batch);
  void write_marks(const std::vector<PendingMark>& taken, Batch& batch, Flight& flight);
  void take_back(const Flight& flight);
  void complete_journal(Batch& batch);
  void keep_buffers(Batch& batch);

  Surroundings& around_;
  SegmentPool& pool_;
  DamageNotes& damage_;
  Logs& logs_;
  LogRunners& runners_;
  GarbageMarks& marks_;
  RestartPositions& positions_;

  Ticket last_ticket_ = 0;
  Ticket last_hold_ = 0;  // of them, the last one that waits for the hold log as well
  Ticket covered_ = 0;    // by batches made
  Ticket committed_ = 0;
  bool settled_ = false;
  bool flush_journal_ = false;
  bool flush_others_ = false;
  std::uint64_t last_batch_ = 0;
  std::deque<Flight> journal_flights_;  // oldest first, at most kJournalBatches
  std::optional<Flight> other_flight_;
  std::optional<Flight> pool_flight_;
  std::vector<std::string> spare_buffers_;  // for what logs gather
};

}  // namespace pen::queue_log
