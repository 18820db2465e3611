#pragma once
/// Random work of a queue on a machine that dies: what crash tests of one disk and of several run.
///
/// Use:     struct OneDisk final : Machine { … };
///          Workload(random, options, machine, cuts).run(150);   // throws Violation
/// Checked: before each operation of the machine, what every kind of cut would leave (Checker); and at each restart of
///          the workload itself.
/// Thread:  one.
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/queue/queue_log/format.h"
#include "lib/queue/queue_log/queue_log.h"
#include "lib/queue/queue_log/scan.h"
#include "lib/queue/queue_log/testing/crash_checker.h"
#include "lib/queue/queue_log/testing/fault_storage.h"
#include "lib/testing/manual_clock.h"

namespace pen::queue_log {

inline Options small_options(Random& random) {
  Options o;
  const bool many_logs = random.chance(0.25);
  const bool long_segments = random.chance(0.1);
  // A commit that ends a segment is alone: only in long ones are as many at their sync as there may be.
  o.segment_size = long_segments ? 16384 : 8192;
  // With many logs the restart positions fill more than one sector, and can be torn.
  const int logs = many_logs ? 32 : 2;
  for (int i = 1; i <= logs; ++i) o.intervals.emplace_back(300 * i);
  o.reserve = 12 * 12000;  // what the workload has in hand at most
  o.save_every = 12000;
  o.suffix_limit = 16384;
  return o;
}

/// Writes that failed, over all workloads, by what they were for.
struct FailedWrites {
  std::uint64_t journal = 0, retry = 0, hold = 0, marks = 0, positions = 0, recovery = 0;
};

/// What a queue runs on: the disk of one host, or the disks of several. A process that ends, or its host, leaves a
/// machine on which the next one starts.
class Machine {
 public:
  Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  virtual ~Machine() = default;

  virtual Storage& storage() = 0;
  /// The disk of the host that runs the queue.
  virtual const testing::FaultStorage& disk() const = 0;
  /// The process ends, and perhaps its host: from now on storage() is what the next process finds.
  virtual void restart(Random& random) = 0;
  /// Called at each act of the workload: what happens to the machine meanwhile.
  virtual void pass(Random& /*random*/) {}
  /// A sync, or a write, fails soon, or never. True: one will.
  virtual bool let_a_sync_fail(Random& /*random*/) { return false; }
  virtual bool let_a_write_fail(Random& /*random*/) { return false; }
  /// An operation has failed, so that the process has to end.
  virtual bool failed() const { return false; }
  /// Of these the last one, a write.
  virtual bool failed_write() const { return false; }

  /// Called before each operation, with every disk that a next process could find if it came to an end now.
  std::function<void(const testing::FaultStorage&)> at_each_operation;
};

/// A queue under random load: a crash cuts each operation of its machine.
class Workload {
 public:
  /// `options` as the machine was made for, `cuts` counts what was checked.
  Workload(Random random, Options options, Machine& machine, std::uint64_t& cuts)
      : random_(random), cuts_(cuts), options_(std::move(options)), machine_(machine) {
    machine_.at_each_operation = [this](const testing::FaultStorage& now) { cut(now); };
  }
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;
  ~Workload() { machine_.at_each_operation = nullptr; }

  /// A number of random acts, each followed by a commit or not; restarts in between.
  void run(int acts) {
    start();
    for (int i = 0; i < acts; ++i) {
      machine_.pass(random_);
      act();
      if (random_.chance(0.6)) commit();
      if (random_.chance(0.01)) restart();
    }
    commit();
    drain();
  }
  static inline std::uint64_t refusals = 0;  // appends that a full disk refused, over all workloads
  static inline std::size_t most_in_hand = 0;
  static inline std::uint64_t taken_again = 0, superseded = 0;
  static inline FailedWrites failed_writes;

 private:
  /// Whatever was refused meanwhile: deliveries bring the room for new mail back.
  void drain() {
    for (int i = 0; !log_->has_space() || !working_.empty(); ++i) {
      if (i > 300) throw Violation{"a full disk does not drain"};
      while (!working_.empty()) {
        const std::string id = working_.begin()->first;
        note_end(id).finish_called = true;
        if (!log_->work().finish(id)) throw Violation{"finish: no space"};
        working_.erase(working_.begin());
      }
      clock_.advance(seconds(700));
      for (LogId id = 0; id < log_->runners().log_count(); ++id) {
        if (id == kHold) continue;
        auto due = log_->runners().next_due(id, clock_.wall_now());
        if (!due) throw Violation{"runner: " + due.error().message()};
        if (!due->message) continue;
        begin(*due->message, true);
      }
      if (!log_->compact_held(4096)) throw Violation{"compaction failed"};
      if (i == 100) remove_held();
      log_->commits().flush();
      commit_only();
    }
  }

  /// What is on hold keeps the room of all that was put on hold after it: see the limits in docs/queue-recovery.md.
  void remove_held() {
    auto scan = log_->scan();
    while (!scan->done()) {
      auto some = scan->step(50);
      if (!some) throw Violation{"scan failed: " + some.error().message()};
      for (const auto& l : *some) {
        if (l.place.log != kHold) continue;
        if (auto t = log_->work().remove(l.place, l.queue_id, l.generation)) note_removal(l.queue_id, *t);
      }
    }
  }

  static constexpr double kChain = 0.3;

  void cut(const testing::FaultStorage& now) {
    positions_saved_ = positions_saved_ || (log_ && log_->commits().last_save() > 0);
    for (const testing::FaultStorage::Cut how : testing::FaultStorage::kCuts) {
      const int depth = random_.chance(kChain) ? 1 + static_cast<int>(random_.below(2)) : 0;
      Checker checker(ledger_, options_, random_, cuts_);
      checker.positions_saved = positions_saved_;
      checker.check(now.cut(how, random_), depth);
    }
  }

  void start() {
    options_.retry_logs = random_.chance(0.5) ? RetryLogs::many : RetryLogs::single;
    auto opened = QueueLog::open(machine_.storage(), options_, clock_, random_);
    if (!opened) throw Violation{"open: " + opened.error().message()};
    log_ = *std::move(opened);
    ++process_;
    tickets_.clear();
    working_.clear();
    while (log_->restart().stage() != Recovery::done) {
      if (random_.chance(0.4)) accept();
      for (auto n = random_.below(4); n > 0; --n) accept_again();
      if (random_.chance(0.05)) drop_file_returns();
      if (!log_->restart().step(1024)) throw Violation{"recovery failed"};
      if (log_->restart().stage() == Recovery::settling && random_.chance(0.3)) accept();
      commit();
    }
    if (const Damage* damage = unexplained(log_->restart().report(), machine_.disk()))
      throw Violation{"damage reported after a mere crash: " + damage->what};
    for (Recent& r : recent_) r.known = false;  // it may ask when one more process has died
  }

  void restart() {
    // A receiver finds its message in the process after the one that took it. When that one dies too, once its recovery
    // had ended on the disk, it may be taken a second time: see the limits in docs/queue-recovery.md.
    if (log_->restart().stage() == Recovery::settling)
      for (Recent& r : recent_) r.known = r.known && r.process == process_;
    log_.reset();
    machine_.restart(random_);
    // What was asked for and not confirmed may have come true or not; the truth from now on is what is there.
    start();
    // A second failure in here has started anew already. A scan finds what was written.
    log_->commits().flush();
    commit_only();
    std::set<std::string> there;
    auto scan = log_->scan(InTransit::shown);
    while (!scan->done()) {
      auto some = scan->step(100);
      if (!some) throw Violation{"scan failed: " + some.error().message()};
      for (const auto& listed : *some) there.insert(listed.queue_id);
    }
    // But what this process was asked for during its start is not yet the truth.
    std::erase_if(ledger_,
                  [&](const auto& entry) { return !there.contains(entry.first) && entry.second.asked_in != process_; });
    for (auto& [id, m] : ledger_)
      if (m.asked_in != process_) m.finish_called = m.remove_called = false;
  }

  void commit_only() { commit(true); }
  void commit(bool quietly = false) {
    if (random_.chance(0.3)) log_->commits().flush();
    struct InHand {
      Batch batch;
      Result<void> executed{};
      bool done() const { return batch.done() || !executed; }
    };
    std::vector<InHand> hand;  // several may be under way, each step of one between any two of another
    const auto take = [&] {
      if (auto batch = log_->commits().next_batch()) hand.push_back({*std::move(batch)});
      const auto commits =
          std::count_if(hand.begin(), hand.end(), [](const InHand& one) { return one.batch.covers() != 0; });
      most_in_hand = std::max(most_in_hand, static_cast<std::size_t>(commits));
    };
    // Sometimes as many as there may be: mail comes in faster than it is written.
    for (int left = !quietly && random_.chance(0.05) ? 50 : 0; left > 0 && ledger_.size() < 80; --left) {
      accept();
      take();
    }
    for (;;) {
      if (hand.empty() || random_.chance(0.7)) take();
      if (hand.empty()) return;
      // The loop goes on while the writer writes.
      if (!quietly && !machine_.failed() && random_.chance(0.3) && log_->restart().stage() == Recovery::done) act();
      if (!quietly && hand.size() < QueueLog::kBatchesAtOnce && ledger_.size() < 80 && random_.chance(0.5)) accept();
      if (!quietly && random_.chance(0.004)) machine_.let_a_sync_fail(random_);
      if (!quietly && random_.chance(0.012)) let_a_write_fail();
      const auto at = static_cast<std::ptrdiff_t>(random_.below(hand.size()));
      InHand& one = hand[static_cast<std::size_t>(at)];
      if (!one.done()) one.executed = one.batch.step(machine_.storage());
      // The process ends before anybody had an answer; often in the batch that ends recovery, which alone saves
      // positions together with new mail.
      const double ends = !one.batch.done() ? 0.003 : log_->restart().stage() == Recovery::settling ? 0.2 : 0.03;
      if (!quietly && one.executed && random_.chance(ends)) return restart();
      // Its end may be noticed after that of another one.
      if (!one.done() || random_.chance(0.3)) continue;
      InHand ended = std::move(one);
      hand.erase(hand.begin() + at);
      const bool failing = !ended.executed;
      auto done = log_->commits().complete(std::move(ended.batch), std::move(ended.executed));
      if (!done && failing) {
        if (machine_.failed_write()) count_failed_write();
        return restart();  // the process ends; the kernel calls the lost pages clean
      }
      if (!done) throw Violation{"commit: " + done.error().message()};
      while (!tickets_.empty() && tickets_.begin()->first <= *done) {
        tickets_.begin()->second();
        tickets_.erase(tickets_.begin());
      }
    }
  }

  void let_a_write_fail() {
    // A few in each workload: one with recoveries that fail again and again does not come to its end.
    if (made_to_fail_ <= 3 && machine_.let_a_write_fail(random_)) ++made_to_fail_;
  }

  void count_failed_write() {
    const auto& write = machine_.disk().half_written().back();
    const auto header = decode_segment_header(as_bytes(machine_.disk().content(write.slot)));
    if (log_->restart().stage() != Recovery::done) ++failed_writes.recovery;
    if (write.slot == kPositionsSlot)
      ++failed_writes.positions;
    else if (write.bytes == 4)
      ++failed_writes.marks;
    else if (header)
      ++(header->interval == 0          ? failed_writes.journal
         : header->interval == kHoldLog ? failed_writes.hold
                                        : failed_writes.retry);
  }

  Envelope envelope(const std::string& id, Message& m, OrdinalSet remaining, std::size_t least = 0) {
    Envelope e;
    e.queue_id = id;
    e.recipients = m.recipients;
    e.remaining = std::move(remaining);
    e.sender = "sender@example.org";
    e.domains = {"example.com", "example.net"};
    const std::size_t size = least != 0             ? least + random_.below(1500)
                             : random_.chance(0.03) ? 9000
                                                    : random_.below(random_.chance(0.2) ? 3000 : 300);
    e.payload = id + std::string(size, static_cast<char>('a' + random_.below(26)));
    m.payloads.insert(e.payload);
    return e;
  }

  void accept() {
    const std::string id = "M" + std::to_string(++serial_);
    Message& m = ledger_[id];
    m.recipients = 1 + static_cast<std::uint32_t>(random_.below(4));
    auto a = log_->append(envelope(id, m, OrdinalSet::span(0, m.recipients)));
    if (!a) {
      refusals += log_->has_space() ? 0 : 1;
      ledger_.erase(id);
      return;
    }
    tickets_.emplace(a->ticket, [this, id] { ledger_[id].accepted = true; });
    recent_.push_back({id, process_, true});
    if (recent_.size() > 8) recent_.pop_front();
  }

  /// A receiver without an answer from a process before: what the next one has read may not be there twice, what a
  /// later one has may.
  void accept_again() {
    if (recent_.empty()) return;
    const Recent asks = recent_[random_.below(recent_.size())];
    const auto known = ledger_.find(asks.id);
    if (known == ledger_.end()) return;
    Message& m = known->second;
    if (m.accepted || m.finish_called || m.remove_called || m.removed) return;
    append_again(asks.id, m, !asks.known);
  }

  /// Its removal did not reach the disk, and pickup hands it in again: whatever became of it.
  void drop_file_returns() {
    if (ledger_.empty()) return;
    auto one = ledger_.begin();
    std::advance(one, static_cast<std::ptrdiff_t>(random_.below(ledger_.size())));
    append_again(one->first, one->second, true);
  }

  void append_again(const std::string& id, Message& m, bool may_be_new) {
    const auto versions = m.payloads;
    auto a = log_->append(envelope(id, m, OrdinalSet::span(0, m.recipients)));
    if (!a) {
      m.payloads = versions;
      return;
    }
    if (!a->duplicate) {
      // Strictly so only if one is still there; that one may be finished, and the other is delivered.
      m.taken_again = m.taken_again || may_be_new;
      ++taken_again;
    }
    tickets_.emplace(a->ticket, [this, id, fresh = !a->duplicate && may_be_new] {
      Message& told = ledger_[id];
      if (!fresh && (told.finish_called || told.remove_called || told.removed)) return;
      told.accepted = true;
    });
  }

  void begin() {
    const auto id = static_cast<LogId>(random_.below(log_->runners().log_count()));
    if (random_.chance(0.2)) clock_.advance(seconds(random_.below(400)));
    if (id == kHold) return act_on_listed();
    auto due = log_->runners().next_due(id, clock_.wall_now());
    if (!due) throw Violation{"runner: " + due.error().message()};
    if (due->message && working_.size() < 12) begin(*due->message);
  }

  /// Of two versions of a message only one is worked on.
  void begin(const Stored& stored, bool must = false) {
    const auto started = log_->work().start(stored);
    if (started) {
      if (!working_.emplace(stored.envelope.queue_id, stored.envelope.remaining).second)
        throw Violation{stored.envelope.queue_id + " is worked on twice"};
    } else if (started.error().is(QueueLogError::superseded)) {
      if (!ledger_[stored.envelope.queue_id].taken_again)
        throw Violation{stored.envelope.queue_id + " lost to another version, and there is none"};
      ++superseded;
    } else if (must) {
      throw Violation{"start: " + started.error().message()};
    }
  }

  /// Tools: messages found by a scan are deleted, or taken up out of turn.
  void act_on_listed() {
    auto scan = log_->scan();
    std::vector<Listed> all;
    while (!scan->done()) {
      auto some = scan->step(50);
      if (!some) throw Violation{"scan failed: " + some.error().message()};
      for (auto& l : *some)
        if (!l.active) all.push_back(std::move(l));
    }
    if (all.empty()) return;
    const Listed& one = all[random_.below(all.size())];
    if (random_.chance(0.3)) {
      auto t = log_->work().remove(one.place, one.queue_id, one.generation);
      if (t) note_removal(one.queue_id, *t);
      return;
    }
    auto stored = log_->runners().read(one.place);
    if (!stored || working_.size() >= 12) return;
    if (one.place.position >= Position{UINT64_MAX, 0}) return;
    begin(*stored);
  }

  Message& note_end(const std::string& id) {
    Message& m = ledger_[id];
    m.asked_in = process_;
    return m;
  }
  void note_removal(const std::string& id, Ticket ticket) {
    note_end(id).remove_called = true;
    tickets_.emplace(ticket, [this, id] { ledger_[id].removed = true; });
  }

  void work() {
    if (working_.empty()) return begin();
    auto it = working_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(random_.below(working_.size())));
    const std::string id = it->first;
    OrdinalSet& left = it->second;
    Message& m = ledger_[id];
    if (auto stale = log_->work().stale()) {
      auto w = working_.find(*stale);
      if (w == working_.end()) throw Violation{"stale: " + *stale + " is not worked on"};
      (void)log_->work().renew(*stale, envelope(*stale, ledger_[*stale], w->second));
    }
    const auto choice = random_.below(20);
    if (choice < 10 && !left.empty()) {
      const auto ordinal = left.ranges()[random_.below(left.ranges().size())].first;
      auto t = log_->work().delivered(id, OrdinalSet::one(ordinal), "250 2.0.0 ok");
      if (!t) return;
      m.tried.add(ordinal);
      left.remove(ordinal);
      tickets_.emplace(*t, [this, id, ordinal] { ledger_[id].delivered.add(ordinal); });
    } else if (left.empty()) {
      note_end(id).finish_called = true;
      if (log_->work().finish(id)) working_.erase(id);
    } else if (choice < 15) {
      const auto log = static_cast<LogId>(kFirstRetry + random_.below(2));
      if (log_->work().defer(id, log, envelope(id, m, left))) working_.erase(id);
    } else if (choice == 15) {
      if (log_->work().hold(id, envelope(id, m, left))) working_.erase(id);
      if (random_.chance(0.3)) let_a_write_fail();  // the hold log has few writes
    } else if (choice == 16) {
      if (log_->work().release(id, envelope(id, m, left))) working_.erase(id);
    } else if (choice == 17 || choice == 19) {
      // Some are long, so that they begin a segment; and some are deferred before the renewed version is synced.
      (void)log_->work().renew(id, envelope(id, m, left, random_.chance(0.5) ? 4000 : 0));
      if (random_.chance(0.5) && log_->work().defer(id, kFirstRetry, envelope(id, m, left))) {
        working_.erase(id);
        log_->commits().flush();
      }
    } else if (choice == 18) {
      auto t = log_->work().remove(id);
      if (t) {
        note_removal(id, *t);
        working_.erase(id);
      }
    }
  }

  void act() {
    if (const Damage* damage = unexplained(log_->restart().report(), machine_.disk()))
      throw Violation{"damage reported without any: " + damage->what};
    if (random_.chance(0.1) && !log_->compact_held(4096)) throw Violation{"compaction failed"};
    const auto choice = random_.below(10);
    if (choice < 3 && ledger_.size() < 60)
      accept();
    else if (choice < 6)
      begin();
    else
      work();
    if (random_.chance(0.02)) {
      // Forget what is over, so that the ledger stays small: it must stay away, which `removed` says.
      std::erase_if(ledger_, [](const auto& e) { return e.second.removed && !e.second.taken_again; });
    }
  }

  Random random_;
  std::uint64_t& cuts_;
  Options options_;
  testing::ManualClock clock_;
  Machine& machine_;
  std::unique_ptr<QueueLog> log_;
  Ledger ledger_;
  std::map<std::string, OrdinalSet> working_;
  std::multimap<Ticket, std::function<void()>> tickets_;
  int serial_ = 0;
  bool positions_saved_ = false;
  int process_ = 0;
  int made_to_fail_ = 0;
  struct Recent {
    std::string id;
    int process;  // that took it
    bool known;   // to the log, whatever happens before the next process has recovered
  };
  std::deque<Recent> recent_;  // their receivers may not have their answers yet
};

}  // namespace pen::queue_log
