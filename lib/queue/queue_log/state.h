#pragma once
/// The parts of the queue log. Private to lib/queue/queue_log.
///
/// Each part has its own state, and stands below those it works with; none knows of one that stands above it in this
/// list, nor of State:
///
///   what uses all     work.cc, runner.cc, scan.cc: calls; recovery.cc, resolve.cc: a restart
///   CommitLanes       commit.cc: tickets, batches in hand
///   RestartPositions  restart_positions.cc: saves; which segments nothing needs any more
///   HoldCompaction    hold.cc: keeps the hold log short
///   LogRunner         log_runner.cc: walks a log to the next message; FreshMail: new mail it need not read
///   StoredEnvelopes   stored.cc: reads a version by its place
///   WorkTable         work_table.cc: messages being worked on, open STARTs, replacements on their way
///   KnownIds          known_ids.h: which messages were taken and begun lately
///   GarbageMarks      marks.cc: what is garbage, and the marks still to be written
///   Log, Logs         log.cc, append.cc: what was appended, how far it is written and synced
///   DamageNotes       damage.cc: what was lost, once
///   SegmentPool       pool.cc: segments in use, free, dirty, damaged; the reserve
///   Surroundings      storage, settings, clock, random numbers, counts
///
/// The uppermost line works with all of them, by State; QueueLog's calls are spread over these files.
#include <memory>
#include <vector>

#include "lib/queue/queue_log/damage.h"
#include "lib/queue/queue_log/hold.h"
#include "lib/queue/queue_log/known_ids.h"
#include "lib/queue/queue_log/lanes.h"
#include "lib/queue/queue_log/log_runner.h"
#include "lib/queue/queue_log/queue_log.h"
#include "lib/queue/queue_log/recovery.h"
#include "lib/queue/queue_log/restart_positions.h"
#include "lib/queue/queue_log/stored.h"
#include "lib/queue/queue_log/work_table.h"

namespace pen::queue_log {

struct QueueLog::State {
  State(Storage& storage, Options options, const Clock& clock, Random& random)
      : around(storage, std::move(options), clock, random),
        ids(around.options.remembered_ids, random.next(), clock.wall_now()) {}

  Surroundings around;
  RecoveryReport report;
  SegmentPool pool{around};
  DamageNotes damage{report, pool};
  Logs logs{around, pool};
  GarbageMarks marks{around.options.expected_working};
  KnownIds ids;
  WorkTable work{around, pool, logs, marks};
  StoredEnvelopes envelopes{around, pool, logs, marks};
  FreshMail fresh;
  LogRunners runners;
  HoldCompaction hold{around, pool, logs, runners, work, marks, envelopes, damage};
  RestartPositions positions{around, pool, logs, runners, fresh, marks, work};
  CommitLanes lanes{around, pool, damage, logs, runners, marks, positions};
  std::unique_ptr<RecoveryState> recovering;  // until recovery has ended

  /// With its runners; `intervals` are those of a retry log, one per runner.
  Log& add_log(std::int64_t disk_interval, const std::vector<seconds>& intervals);

  Recovery stage() const;  // recovery.cc

  // work.cc
  std::optional<Position> outdone_by(std::string_view queue_id, std::uint32_t record_epoch) const;
  Result<Position> begin(std::string_view queue_id, const Place& place, std::uint64_t bytes, std::uint32_t generation,
                         std::uint32_t record_epoch);
  Result<Position> replace(std::string_view queue_id, const Working& work, Log& into, const Envelope& replacement,
                           seconds interval = seconds(0));
  /// The version left its log, to be worked on or as garbage.
  void left(const Place& place);
};

}  // namespace pen::queue_log
