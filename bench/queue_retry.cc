// Measures a backlog in which every retry fails, in virtual time: what one round over it writes, reads and syncs.
//
// Messages have come in at an even rate for five hours. Each was tried at once, and again whenever its time came by
// qmgr's rule (the wait is the message's age, within 300 to 4,000 s); so most wait in the longest interval. The round
// takes 4,000 s: every message is tried, most of them once, and new ones keep coming in.
#include <algorithm>
#include <array>
#include <deque>

#include "bench/queue_bench.h"
#include "lib/testing/manual_clock.h"

namespace pen::bench {
namespace {

using namespace queue_log;

constexpr long kHistory = 18'000;  // seconds over which the backlog came in
constexpr long kRound = 4'000;
constexpr std::size_t kInHand = 10'000;  // messages in progress at once, half of qmgr's bound

/// Tries messages as qmgr would, but without the network: each stays in hand for a while and is deferred.
class Round {
 public:
  Round(BenchQueue& queue, testing::ManualClock& clock, const RetryWork& work)
      : queue_(queue), log_(*queue.log), clock_(clock), work_(work) {}

  /// Receives a group, which one commit takes.
  void receive(long count) {
    std::vector<std::pair<Envelope, QueueLog::Appended>> group;
    for (; count > 0; --count) {
      Envelope e = envelope(++serial_);
      const auto a = need(log_.append(e));
      group.emplace_back(std::move(e), a);
    }
    queue_.commit();
    for (auto& [e, a] : group) {
      need(log_.work().start(e.queue_id, a.place, a.bytes));
      take(std::move(e));
    }
  }
  /// Processes everything that is due now, new mail and retry logs in turn.
  void run() {
    for (bool found = true; found;) {
      found = false;
      for (LogId id = 0; id < log_.runners().log_count(); ++id) {
        if (id == kHold) continue;
        auto due = need(log_.runners().next_due(id, clock_.wall_now()));
        if (due.message) {
          need(log_.work().start(*due.message));
          ++tried;
          take(std::move(due.message->envelope));
        } else if (!due.more && due.next && *due.next <= clock_.wall_now()) {
          queue_.commit();  // its newest lines wait for a sync
          due.more = true;
        }
        found = found || due.message || due.more;
      }
      if (++since_commit_ % 64 == 0) queue_.commit();
    }
  }
  void end_second() {
    log_.commits().flush();
    queue_.commit();
  }
  void empty_hands() {
    while (!in_hand_.empty()) defer();
    end_second();
  }

  Envelope envelope(long number) const {
    Envelope e;
    e.queue_id = "R" + std::to_string(number);
    e.recipients = 1;
    e.remaining = OrdinalSet::one(0);
    e.arrived = clock_.wall_now();
    e.size = work_.bytes;
    e.sender = "sender@example.org";
    e.domains = {"example.com"};
    e.payload.assign(work_.bytes, 'x');
    return e;
  }
  void take(Envelope e) {
    in_hand_.push_back(std::move(e));
    if (in_hand_.size() > std::min<std::size_t>(kInHand, static_cast<std::size_t>(work_.messages) / 50)) defer();
  }
  long tried = 0;

 private:
  void defer() {
    const Envelope e = std::move(in_hand_.front());
    in_hand_.pop_front();
    const auto age = std::chrono::duration_cast<seconds>(clock_.wall_now() - e.arrived);
    need(log_.work().defer(e.queue_id, log_.runners().retry_log_for(std::clamp(age, seconds(300), seconds(4000))), e));
    if (++since_commit_ % 64 == 0) queue_.commit();
  }

  BenchQueue& queue_;
  QueueLog& log_;
  testing::ManualClock& clock_;
  const RetryWork& work_;
  std::deque<Envelope> in_hand_;
  long since_commit_ = 0;
  static inline long serial_ = 1'000'000'000;
};

/// The age at which a message that is now so old was last tried.
long last_try(long age) {
  long tried = 0;
  for (;;) {
    long wait = std::clamp(tried, 300L, 4000L);
    for (const long step : {300L, 600L, 1200L, 2400L, 4000L})
      if (wait <= step) {
        wait = step;
        break;
      }
    if (tried + wait > age) return tried;
    tried += wait;
  }
}

/// Builds the backlog as it is after those hours: each message goes to where its last try put it.
void fill(BenchQueue& queue, testing::ManualClock& clock, const RetryWork& work) {
  QueueLog& log = *queue.log;
  struct One {
    std::int32_t at;  // of the last try, seconds from the beginning
    std::int32_t arrived;
  };
  std::vector<One> all(static_cast<std::size_t>(work.messages));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const long arrived = static_cast<long>(i) * kHistory / work.messages;
    all[i] = {static_cast<std::int32_t>(arrived + last_try(kHistory - arrived)), static_cast<std::int32_t>(arrived)};
  }
  std::sort(all.begin(), all.end(),
            [](const One& a, const One& b) { return std::tie(a.at, a.arrived) < std::tie(b.at, b.arrived); });
  const Round maker(queue, clock, work);
  const WallTime begin = clock.wall_now();
  long second = 0, number = 0;
  for (std::size_t i = 0; i < all.size();) {
    clock.advance(seconds(all[i].at - second));
    second = all[i].at;
    std::vector<std::pair<Envelope, QueueLog::Appended>> group;
    for (; i < all.size() && all[i].at == second && group.size() < 1000; ++i) {
      Envelope e = maker.envelope(++number);
      e.arrived = begin + seconds(all[i].arrived);
      const auto a = need(log.append(e));
      group.emplace_back(std::move(e), a);
    }
    queue.commit();
    for (const auto& [e, a] : group) {
      need(log.work().start(e.queue_id, a.place, a.bytes));
      const auto age = std::chrono::duration_cast<seconds>(clock.wall_now() - e.arrived);
      need(log.work().defer(e.queue_id, log.runners().retry_log_for(std::clamp(age, seconds(300), seconds(4000))), e));
    }
  }
  clock.advance(seconds(kHistory - second));
  log.commits().flush();
  queue.commit();
}

void round(BenchQueue& queue, testing::ManualClock& clock, const RetryWork& work, int delay_ms) {
  queue.storage.sync_delay = milliseconds(delay_ms);
  queue.storage.counts = {};
  Round round(queue, clock, work);
  const auto began = std::chrono::steady_clock::now();
  const long coming = work.messages * kRound / kHistory;
  long came = 0;
  std::size_t most_segments = 0;
  double most_memory = 0;
  for (long second = 0; second < kRound; ++second) {
    clock.advance(seconds(1));
    // New mail comes in groups, as from many clients at once.
    while (came < coming * (second + 1) / kRound) {
      const long group = std::min(coming * (second + 1) / kRound - came, 100L);
      round.receive(group);
      came += group;
    }
    round.run();
    round.end_second();
    most_segments = std::max(most_segments, queue.log->figures().segments_used);
    if (second % 100 == 0) most_memory = std::max(most_memory, anonymous_mib());
  }
  round.empty_hands();
  const double took = seconds_since(began);
  const auto& c = queue.storage.counts;
  const double tries = static_cast<double>(round.tried + came);
  std::printf("%9ld %-7s %+4d ms %10.0f %10.2f %10.2f %9llu %10.0f %10.0f %8.1f %9.1f\n", work.messages,
              work.form == RetryLogs::many ? "many" : "single", delay_ms, tries,
              static_cast<double>(c.written) / tries / 1024, static_cast<double>(c.read) / tries / 1024,
              static_cast<unsigned long long>(c.syncs),
              static_cast<double>(most_segments) * work.segment_size / (1 << 20), tries / took, took, most_memory);
  std::fflush(stdout);
}

}  // namespace

void measure_retries(const RetryWork& work) {
  testing::ManualClock clock;
  Options options;
  options.segment_size = work.segment_size;
  options.intervals = retry_ladder(seconds(300), seconds(4000));
  options.retry_logs = work.form;
  BenchQueue queue(work.directory, options, clock);
  queue.commit();
  queue.recover();
  const auto began = std::chrono::steady_clock::now();
  fill(queue, clock, work);
  std::fprintf(stderr, "%ld messages filled in within %.1f s\n", work.messages, seconds_since(began));
  std::printf("%9s %-7s %7s %10s %10s %10s %9s %10s %10s %8s %9s\n", "deferred", "logs", "sync", "tries", "KiB out/t",
              "KiB in/t", "syncs", "disk MiB", "tries/s", "seconds", "anon MiB");
  for (const int delay : work.delays) round(queue, clock, work, delay);
}

}  // namespace pen::bench
