#pragma once
/// What a queue owes the outside world, and whether the log that a crash left behind still gives it. For crash tests.
///
/// Use:     Ledger ledger;                       // the workload notes the answers that it got and what it asked for
///          Checker(ledger, options, random, cuts).check(disk.cut(how, random), depth);   // throws Violation
/// Depth:   above 0 the recovery is cut again at a random operation, down to that many cuts in a row.
/// Thread:  one.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "lib/queue/queue_log/queue_log.h"
#include "lib/queue/queue_log/scan.h"
#include "lib/queue/queue_log/testing/fault_storage.h"
#include "lib/testing/manual_clock.h"

namespace pen::queue_log {

/// What the outside world knows of one message, and what was asked for.
struct Message {
  std::uint32_t recipients = 0;
  std::set<std::string> payloads;  // every version that was ever given to the log
  bool accepted = false;           // 250 was said
  OrdinalSet tried;                // delivered() was called
  OrdinalSet delivered;            // and its ticket was durable: the peer knows
  bool finish_called = false;
  bool remove_called = false;
  int asked_in = 0;      // number of the process that was asked for its end
  bool removed = false;  // success was reported
  // Taken again when the log could not know it: by a receiver that asked after several deaths, or because a drop file
  // came back. It may be there twice, and what was done of it be done again; it must not be lost, nor worked on twice
  // at once.
  bool taken_again = false;
};
using Ledger = std::map<std::string, Message>;

struct Violation {
  std::string what;
};

/// Damage that no crash and no failed write explains. Recovery reports what a write leaves that fails in its middle:
/// - half a garbage mark; the record is taken for live;
/// - half of the second copy of a new segment's header, when a power cut then takes the first; nothing in it was
///   acknowledged, and no positions name it.
inline const Damage* unexplained(const RecoveryReport& report, const testing::FaultStorage& disk) {
  for (const Damage& d : report.damage) {
    const bool half_written = std::any_of(disk.half_written().begin(), disk.half_written().end(), [&](const auto& w) {
      if (w.slot != d.slot || w.offset != d.offset) return false;
      return d.what.starts_with("odd garbage mark")
                 ? w.bytes == 4
                 : d.use == 0 && d.offset == 0 && d.what.ends_with("header is unreadable");
    });
    if (!half_written) return &d;
  }
  return nullptr;
}

/// Opens what a crash left, recovers it, and compares with the ledger. Throws Violation.
class Checker {
 public:
  /// `options` of the log that was cut. `also` looks at each message that is found.
  Checker(const Ledger& ledger, Options options, Random& random, std::uint64_t& cuts,
          std::function<void(const Stored&)> also = {})
      : ledger_(ledger), options_(std::move(options)), random_(random), cuts_(cuts), also_(std::move(also)) {}

  bool positions_saved = false;  // a save of restart positions was completed before the cut

  void check(testing::FaultStorage disk, int depth) {
    ++cuts_;
    std::uint64_t at = UINT64_MAX;
    if (depth > 0) at = random_.below(14);
    std::uint64_t seen = 0;
    disk.before_operation = [&](const testing::FaultStorage& now) {
      if (seen++ == at) check(now.cut(any_cut(), random_), depth - 1);
    };
    // Now and then the disk fails recovery's own sync: the process ends, and the next one must not believe its pages.
    // Or a write of its: replacements, marks, positions.
    if (depth > 0 && random_.chance(0.2)) {
      disk.fail_sync = 1 + random_.below(12);
    } else if (depth > 0 && random_.chance(0.2)) {
      disk.fail_write = 1 + random_.below(8);
      disk.fail_one_write = random_.chance(0.3);
      disk.write_errno = random_.chance(0.5) ? EIO : ENOSPC;
    }
    const auto failed = [&disk] { return disk.failed_sync() || disk.failed_write(); };
    testing::ManualClock clock;
    clock.advance(seconds(100000));
    Random inner(random_.next());
    // Either form of the retry logs, perhaps the other one than before.
    Options options = options_;
    options.retry_logs = random_.chance(0.5) ? RetryLogs::many : RetryLogs::single;
    auto opened = QueueLog::open(disk, options, clock, inner);
    if (!opened && failed()) return check(disk.cut(any_cut(), random_), depth - 1);
    if (!opened) throw Violation{"open: " + opened.error().message()};
    QueueLog& log = **opened;
    for (int steps = 0; log.restart().stage() != Recovery::done; ++steps) {
      if (steps > 100000) throw Violation{"recovery does not end"};
      auto stepped = log.restart().step(options_.segment_size / 4);
      if (!stepped) throw Violation{"recovery: " + stepped.error().message()};
      auto done = commit(log, disk);
      if (!done && failed()) return check(disk.cut(any_cut(), random_), depth - 1);
      if (!done) throw Violation{"commit: " + done.error().message()};
    }
    disk.fail_sync = disk.fail_write = 0;
    if (positions_saved && !log.restart().report().positions_found)
      throw Violation{"restart positions that were saved are lost"};
    if (const Damage* damage = unexplained(log.restart().report(), disk))
      throw Violation{"damage reported after a mere crash: " + damage->what};
    compare(log);
  }

 private:
  testing::FaultStorage::Cut any_cut() { return testing::FaultStorage::kCuts[random_.below(5)]; }

  static Result<void> commit(QueueLog& log, testing::FaultStorage& disk) {
    while (auto batch = log.commits().next_batch()) {
      auto executed = batch->execute(disk);
      PEN_TRY(log.commits().complete(*std::move(batch), std::move(executed)));
    }
    return {};
  }

  void compare(QueueLog& log) {
    held_.clear();                             // of a check inside this one
    std::map<std::string, std::string> found;  // and where
    auto scan = log.scan();
    while (!scan->done()) {
      auto some = scan->step(100);
      if (!some) throw Violation{"scan: " + some.error().message()};
      for (const Listed& listed : *some) {
        const std::string here = std::to_string(listed.place.log) + ":" + std::to_string(listed.place.position.use) +
                                 ":" + std::to_string(listed.place.position.offset) + " generation " +
                                 std::to_string(listed.generation);
        if (!found.emplace(listed.queue_id, here).second && !taken_again(listed.queue_id))
          throw Violation{listed.queue_id + " is there twice, at " + found[listed.queue_id] + " and at " + here};
        auto stored = log.runners().read(listed.place);
        if (!stored) throw Violation{listed.queue_id + " unreadable: " + stored.error().message()};
        look_at(*stored);
      }
    }
    for (const auto& [id, m] : ledger_)
      if (m.accepted && !m.finish_called && !m.remove_called && !found.contains(id))
        throw Violation{id + " was acknowledged and is lost"};
    run(log, found);
  }

  /// The runners find what the scan found, but for what is on hold.
  void run(QueueLog& log, const std::map<std::string, std::string>& scanned) {
    std::set<std::string> run;
    for (LogId id = 0; id < log.runners().log_count(); ++id) {
      if (id == kHold) continue;
      for (int steps = 0;; ++steps) {
        if (steps > 10000) throw Violation{"a runner does not end"};
        auto due = log.runners().next_due(id, WallTime(seconds(2'000'000'000)));
        if (!due) throw Violation{"runner: " + due.error().message()};
        if (due->message) {
          const std::string& queue_id = due->message->envelope.queue_id;
          const auto started = log.work().start(*due->message);
          if (!started && started.error().is(QueueLogError::superseded) && taken_again(queue_id)) continue;
          if (!started) throw Violation{"start: " + started.error().message()};
          if (!run.insert(queue_id).second) throw Violation{queue_id + " is run twice"};
        } else if (!due->more) {
          break;
        }
      }
    }
    for (const auto& id : run)
      if (!scanned.contains(id)) throw Violation{id + " is run but not listed"};
    for (const auto& [id, where] : scanned)
      if (!run.contains(id) && !held_.contains(id)) throw Violation{id + " is listed but not run, at " + where};
  }

  bool taken_again(const std::string& queue_id) const {
    const auto known = ledger_.find(queue_id);
    return known != ledger_.end() && known->second.taken_again;
  }

  void look_at(const Stored& s) {
    const std::string& id = s.envelope.queue_id;
    const auto known = ledger_.find(id);
    if (known == ledger_.end()) throw Violation{id + " was never given"};
    const Message& m = known->second;
    if (s.place.log == kHold) held_.insert(id);
    if (m.removed && !m.taken_again) throw Violation{id + " was removed and is back"};
    if (!m.payloads.contains(s.envelope.payload)) throw Violation{id + " is corrupted"};
    if (s.envelope.recipients != m.recipients) throw Violation{id + " has other recipients"};
    OrdinalSet left = s.envelope.remaining;
    left.remove(m.delivered);
    if (!(left == s.envelope.remaining) && !m.taken_again)
      throw Violation{id + " would be delivered again to a recipient whose delivery was synced"};
    OrdinalSet least = OrdinalSet::span(0, m.recipients);
    least.remove(m.tried);
    OrdinalSet missing = least;
    missing.remove(s.envelope.remaining);
    if (!missing.empty()) throw Violation{id + " lost a recipient"};
    if (also_) also_(s);
  }

  const Ledger& ledger_;
  Options options_;
  Random& random_;
  std::uint64_t& cuts_;
  std::function<void(const Stored&)> also_;
  std::set<std::string> held_;
};

}  // namespace pen::queue_log
