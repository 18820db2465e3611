#pragma once
/// The queue: a journal, a hold log and one log per retry interval, over one pool of recycled
/// segments. No I/O of its own but reads: what is to be written leaves as a Batch, which another
/// thread executes.
///
/// Format:  docs/queue-format.md; what a crash leaves: docs/queue-recovery.md.
/// Source:  docs/origins.md "The log-structured queue", RFC 5321 section 6.1.
/// Use:     auto log = QueueLog::open(storage, options, clock, random);      // accepts new mail at once
///          auto a = log->append(envelope);                                  // at once, in memory
///          while (auto batch = log->commits().next_batch()) {               // several may be in hand
///            auto done = batch->execute(storage);                           // a writer's thread: blocks
///            auto durable = log->commits().complete(std::move(*batch), done);  // loop thread: tickets up to this
///          }                                                                // writer.h does this loop for you
///          while (log->restart().step(1 << 20) == Recovery::reading) {…}    // in slices, between other work
///          auto due = log->runners().next_due(kJournal, now);
///          log->work().start(*due->message);                                // then delivered(), finish(), …
/// Waits:   a 250 waits for append()'s ticket, a delivery result for delivered()'s, a tool's success for the
///          ticket of hold(), release(), remove(). start(), finish(), defer(), renew() wait for nothing.
/// Thread:  one (the loop's) for everything but Batch::execute. Storage, Clock and Random must outlive the log.
/// Errors:  error.h. After io_error every call answers io_error: the process must end.
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/random.h"
#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/queue/queue_log/batch.h"
#include "lib/queue/queue_log/error.h"
#include "lib/queue/queue_log/message.h"
#include "lib/queue/queue_log/options.h"
#include "lib/queue/queue_log/report.h"
#include "lib/queue/queue_log/storage.h"

namespace pen::queue_log {

/// The end of what is durable in a log; `interval` names the log as its segments do (docs/queue-format.md).
struct LogEnd {
  std::int64_t interval = 0;
  Position durable;
};
using LogEnds = std::vector<LogEnd>;

enum class Recovery {
  reading,   // call step() again
  settling,  // all read; ends when the next batches complete
  done,      // runners may start
};

/// What a runner finds next.
struct Due {
  // the head, if it is due; start() it, or ask again later and get the same one
  std::optional<Stored> message;
  // otherwise: when the head will be due; nullopt: nothing waits in this log
  std::optional<WallTime> next;
  bool more = false;  // nothing decided yet: the slice was used up, call again
};

class Scan;

/// The log as a whole, and its four facets, each for one kind of work. A facet lives as long as the log.
class QueueLog {
 public:
  class Commits;
  class Restart;
  class Runners;
  class Work;

  /// Reads the restart positions and every segment's header, opens a fresh journal segment; after
  /// it append() works. Errors: errno of the storage, no_space when not even one segment can be
  /// had, other_version (then nothing was written or renamed).
  static Result<std::unique_ptr<QueueLog>> open(Storage& storage, Options options, const Clock& clock, Random& random);
  ~QueueLog();
  QueueLog(const QueueLog&) = delete;
  QueueLog& operator=(const QueueLog&) = delete;

  // --- new mail ---
  struct Appended {
    Ticket ticket = 0;        // durable when committed() reaches it
    Place place;              // where the envelope will be; valid for start() once durable
    std::uint64_t bytes = 0;  // that its replacement may take; 0 for a duplicate
    // this id was accepted before: nothing was written, the ticket is the first one's
    bool duplicate = false;
    bool another = false;  // a duplicate of another arrival: another message, whose id a receiver made up
  };
  /// Adds a new message (generation 0, epoch now). Idempotent by queue id among the last
  /// half of `remembered_ids` accepted in this process and those recovery read, as many of those with work begun in it,
  /// and all that are being worked on; another id is not recognised, and start() sees to its versions. Errors:
  /// no_space (also when only the reserve is left), too_large (more than kMaxMessage), io_error.
  Result<Appended> append(const Envelope& envelope);
  static constexpr std::size_t kMaxMessage = 64U << 20;
  static constexpr std::size_t kMaxQueueId = 64;
  /// append() recognises the id of every message that was taken from then on. Grows with what is taken.
  WallTime known_since();
  /// Whether append() would be refused for want of space.
  bool has_space() const;
  /// The same, and it is not that the next segment is just being made: the disk has no room for it, or has failed.
  bool disk_full() const;

  // --- facets ---
  Commits& commits() { return *commits_; }
  const Commits& commits() const { return *commits_; }
  Restart& restart() { return *restart_; }
  const Restart& restart() const { return *restart_; }
  Runners& runners() { return *runners_; }
  const Runners& runners() const { return *runners_; }
  Work& work() { return *work_; }
  const Work& work() const { return *work_; }

  // commits of the journal that may be at their sync at the same time
  static constexpr std::size_t kJournalBatches = 8;
  // and one for the other logs and the restart positions, and one that makes a segment
  static constexpr std::size_t kBatchesAtOnce = kJournalBatches + 2;

  // --- the hold log ---
  enum class Compaction {
    idle,   // nothing to do: ask again after a second or more
    more,   // call again
    waits,  // call again after the next commit
  };
  /// Keeps the disk that the hold log takes in proportion to what is on hold: logs give segments back from their old
  /// end, and one message held for years would keep all that was ever held after it. When the log has twice the
  /// segments that what lived in it when last looked would fill, it is read; and if less than half of it lives, what
  /// does is written anew at its end, oldest first. So what is read and written for this is in proportion to what was
  /// put on hold. Reads about `budget` bytes a call. Does nothing below the reserve. A message that is being moved
  /// is, as one on its way to a retry log, not to be started or removed until its copy is durable. Errors: io_error.
  Result<Compaction> compact_held(std::size_t budget);

  // --- listing ---
  /// Every version that lives, log by log, a slice at a time; see scan.h. Independent of runners.
  std::unique_ptr<Scan> scan(InTransit transit = InTransit::left_out);
  /// The same for these queue ids only: segments whose filters say that they hold none are passed over.
  std::unique_ptr<Scan> find(std::vector<std::string> queue_ids, InTransit transit = InTransit::left_out);

  /// A write or a sync failed: the process must end.
  bool failed() const;
  Figures figures() const;
  const Options& options() const;

  struct State;

 private:
  friend class Scan;
  explicit QueueLog(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
  std::unique_ptr<Commits> commits_;
  std::unique_ptr<Restart> restart_;
  std::unique_ptr<Runners> runners_;
  std::unique_ptr<Work> work_;
};

/// Writing what was appended; writer.h does it.
class QueueLog::Commits {
 public:
  /// What there is to do, if somebody waits for it or much has gathered; nullopt while there is nothing worth a write
  /// or a batch in hand must be completed first. Those in hand at once may be executed in any order or at the same
  /// time. Ask again until nullopt.
  std::optional<Batch> next_batch();
  /// Records that nobody waits for leave with the next batch too, even when there is nothing else:
  /// call it at leisure (qmgr: once a second), so that an idle queue has no record in memory only.
  void flush();
  /// Asks for restart positions to be saved with the next batch. Needed by nobody: saves happen by themselves.
  void save_positions();
  /// The number of the first save of restart positions that will know everything appended so far, and of the last one
  /// that is on disk. What a finished message leaves (its spool file) may be used again once last_save() reaches the
  /// next_save() of the moment after finish() or remove(); ask for it with save_positions() when files run short.
  std::uint64_t next_save() const;
  std::uint64_t last_save() const;
  /// For copies of a queue that is being written (log_copy.h). From hold_positions() to release_positions(), which may
  /// be nested, no save begins, so no segment and no spool file is used again; the log grows meanwhile. On a full disk
  /// saves go on nevertheless: the hold was kept if no save is under way and last_save() is what it was.
  void hold_positions();
  void release_positions();
  bool saving() const { return next_save() != last_save() + 1; }
  /// How far each log is durable, at this moment: what a power cut would leave at least.
  LogEnds durable_ends() const;
  /// Takes a batch back, in any order. Returns the ticket up to which everything is durable now; io_error: end the
  /// process.
  Result<Ticket> complete(Batch batch, Result<void> executed);
  /// Every ticket up to this one is durable.
  Ticket committed() const;

 private:
  friend class QueueLog;
  explicit Commits(State& state) : state_(&state) {}
  Commits(const Commits&) = delete;
  Commits& operator=(const Commits&) = delete;
  State* state_;
};

/// Reading what an earlier process left.
class QueueLog::Restart {
 public:
  /// Reads about `budget` bytes further and decides. New mail may be appended and batches committed
  /// in between; every other call answers `recovering` until done.
  Result<Recovery> step(std::size_t budget);
  Recovery stage() const;
  const RecoveryReport& report() const;

 private:
  friend class QueueLog;
  explicit Restart(State& state) : state_(&state) {}
  Restart(const Restart&) = delete;
  Restart& operator=(const Restart&) = delete;
  State* state_;
};

/// Walking the logs to the messages that are due, and reading versions by their place.
class QueueLog::Runners {
 public:
  // A LogId counts intervals: with RetryLogs::single, those from kFirstRetry on read one and the same log, and the
  // Place of a deferred message names that.
  /// The log's interval; 0 for the journal. Not for kHold.
  seconds interval(LogId log) const;
  std::size_t log_count() const;
  /// The retry log with the closest interval at or above `delay`, else the one with the longest.
  LogId retry_log_for(seconds delay) const;
  /// The retry log with the longest interval that is not above `delay`, else the one with the shortest.
  LogId retry_log_within(seconds delay) const;
  /// The first message of a log that is neither being worked on nor garbage, looking only at the
  /// log's head. A version in a retry log shows up once its log was synced (asked for here, if need
  /// be: then `more` is false and `next` is now; call again after the next batch). Errors:
  /// recovering, io_error. Damage on the way is skipped and added to report().
  Result<Due> next_due(LogId log, WallTime now);
  /// A flush: every version that waits in a retry log now is due at once. One mark per log; lost by a restart, after
  /// which they keep their times.
  void make_due();
  /// Reads the version at a place (which a scan or append() gave). not_found: it is garbage or gone.
  Result<Stored> read(const Place& place);

  /// Whether the version at a place is durable already: what start() and remove() ask for.
  bool durable(const Place& place) const;

 private:
  friend class QueueLog;
  explicit Runners(State& state) : state_(&state) {}
  Runners(const Runners&) = delete;
  Runners& operator=(const Runners&) = delete;
  State* state_;
};

/// Working on a message: begun by start(), ended by exactly one of finish(), defer(), hold(), release() and remove().
class QueueLog::Work {
 public:
  /// Whether the disk has room for the replacement of one message more beside those being worked on: what a caller asks
  /// before start(). As long as it does, defer(), hold() and release() find room for all of them at once on a full
  /// disk, and so does a recovery. Below Options::reserve the answer is always yes, or nothing could drain.
  bool may_begin() const;
  /// Appends START. The runner does not show the message again. After this the caller ends the work with exactly one of
  /// finish(), defer(), hold(), release(), remove(). Errors:
  /// - superseded: the message is in the logs a second time, and the other version counts: it is being worked on, or
  ///   was taken or begun by this process and this one is older. This one is garbage from now on.
  /// - not_found: it is garbage, or not durable, or on its way to another log: then a later commit ends that.
  /// - no_space: later.
  Result<void> start(const Stored& message);
  /// The same for a message just appended, from memory. `bytes`: Appended::bytes.
  Result<void> start(std::string_view queue_id, const Place& place, std::uint64_t bytes, std::uint32_t generation = 0);
  bool working(std::string_view queue_id) const;
  std::size_t working_count() const;
  /// Appends DELIVERY: these recipients are done with. The result counts (to the peer that
  /// delivers, to DSN) when the ticket is durable.
  Result<Ticket> delivered(std::string_view queue_id, const OrdinalSet& ordinals, std::string_view payload);
  /// Appends FINISH: nothing is left to do.
  Result<void> finish(std::string_view queue_id);
  /// Writes the replacement to a retry log; FINISH (moved) follows by itself once that log was synced. Returns where it
  /// will be then.
  Result<Place> defer(std::string_view queue_id, LogId retry_log, const Envelope& replacement);
  /// Writes the replacement to the hold log.
  Result<Ticket> hold(std::string_view queue_id, const Envelope& replacement);
  /// Writes the replacement to the journal, where the runner finds it at once: release from hold, requeue.
  Result<Ticket> release(std::string_view queue_id, const Envelope& replacement);
  /// Delete. The first form ends work on a message, the second takes one that nobody works on, where it is.
  Result<Ticket> remove(std::string_view queue_id);
  Result<Ticket> remove(const Place& place, std::string_view queue_id, std::uint32_t generation);
  /// A message with a START that fell suffix_limit behind the head: renew() it (or defer() it when it
  /// cannot go on), so that the part of the journal that a restart must read stays short. nullopt:
  /// none.
  std::optional<std::string> stale();
  /// Re-appends a message being worked on, with what is left; work on it goes on. Does nothing while its START is not
  /// durable yet (it is recent then). Returns where it is now.
  Result<Place> renew(std::string_view queue_id, const Envelope& replacement);

 private:
  friend class QueueLog;
  explicit Work(State& state) : state_(&state) {}
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  State* state_;
};

}  // namespace pen::queue_log
