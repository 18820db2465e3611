#include "lib/queue/queue_log/writer.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <mutex>

#include "lib/base/async/sync.h"
#include "lib/queue/queue_log/posix_storage.h"
#include "lib/queue/queue_log/testing/fault_storage.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::queue_log;

namespace {

struct Edge {
  testing::ScratchDir scratch;
  Random random{7};
  async::Loop loop;
  Options options;
  std::string failure;

  Edge() {
    options.segment_size = 65536;
    options.intervals = {seconds(300)};
    options.reserve = 0;
  }
  static Envelope envelope(int n) {
    Envelope e;
    e.queue_id = "q" + std::to_string(n);
    e.recipients = 1;
    e.remaining = OrdinalSet::one(0);
    e.payload = std::string(500, 'b');
    return e;
  }
  static async::Task<void> accept(QueueLog& log, Writer& writer, int n, int& good, int& bad) {
    auto a = log.append(envelope(n));
    BOOST_REQUIRE(a.has_value());
    auto done = co_await writer.committed(a->ticket);
    ++(done ? good : bad);
  }
  void run(Storage& storage, int messages, int& good, int& bad) {
    auto log = QueueLog::open(storage, options, loop.clock(), random);
    BOOST_REQUIRE(log.has_value());
    Writer writer(loop, **log, storage, [this](const Error& e) { failure = e.message(); });
    // A pool of small segments is soon used up: let it fill first.
    while (failure.empty() && (*log)->figures().segments_free < (*log)->figures().segments_reserved + 15)
      loop.run_once(milliseconds(1000));
    for (int i = 0; i < messages; ++i) loop.spawn("accept", accept(**log, writer, i, good, bad));
    while (good + bad < messages) loop.run_once(milliseconds(1000));
    while (writer.busy()) loop.run_once(milliseconds(1000));
    commits = (*log)->figures().commits;
  }
  std::uint64_t commits = 0;
};

/// Files: once `meeting`, their syncs end only when two are under way at the same time.
class MeetingStorage final : public Storage {
 public:
  explicit MeetingStorage(Storage& inner) : inner_(inner) {}
  Result<std::vector<SlotInfo>> list() override { return inner_.list(); }
  Result<void> allocate(Slot slot, std::uint64_t size) override { return inner_.allocate(slot, size); }
  Result<void> write(Slot slot, std::uint64_t offset, Bytes bytes) override {
    return inner_.write(slot, offset, bytes);
  }
  Result<void> sync(Slot slot) override {
    std::unique_lock lock(mutex_);
    if (meeting) {
      ++inside_;
      met_.notify_all();
      // A bound, so that a mistake fails the test instead of hanging it.
      if (!met_.wait_for(lock, seconds(20), [this] { return inside_ == 2; }))
        return fail_errno("nobody came", ETIMEDOUT);
    }
    lock.unlock();
    return inner_.sync(slot);
  }
  Result<void> read(Slot slot, std::uint64_t offset, MutableBytes into) override {
    return inner_.read(slot, offset, into);
  }
  Result<void> drop_cache(Slot slot) override { return inner_.drop_cache(slot); }
  Result<void> set_aside(Slot slot) override { return inner_.set_aside(slot); }

  std::atomic<bool> meeting = false;
  /// Those inside go on, alone or not.
  void let_go() {
    const std::lock_guard lock(mutex_);
    meeting = false;
    inside_ = 2;
    met_.notify_all();
  }

 private:
  Storage& inner_;
  std::mutex mutex_;
  std::condition_variable met_;
  int inside_ = 0;
};

/// A log that has recovered and made its segments, over such files.
struct Meeting : Edge {
  std::unique_ptr<PosixStorage> files = *PosixStorage::open(scratch.file("log"));
  MeetingStorage storage{*files};
  std::unique_ptr<QueueLog> log = *QueueLog::open(storage, options, loop.clock(), random);
  Writer writer{loop, *log, storage, [this](const Error& e) { failure = e.message(); }};

  Meeting() {
    while (*log->restart().step(1 << 20) != Recovery::done) {
      writer.kick();
      loop.run_once(milliseconds(10));
    }
    while (failure.empty() && log->figures().segments_free < log->figures().segments_reserved + 15)
      loop.run_once(milliseconds(1000));
    while (writer.busy()) loop.run_once(milliseconds(1000));
    storage.meeting = true;
  }
  ~Meeting() {
    while (writer.busy()) loop.run_once(milliseconds(1000));
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(writer)

BOOST_FIXTURE_TEST_CASE(new_mail_does_not_wait_for_a_sync_that_began_before_it, Meeting) {
  int good = 0;
  int bad = 0;
  loop.spawn("first", accept(*log, writer, 0, good, bad));
  while (!writer.busy()) loop.run_once(milliseconds(1000));
  loop.spawn("second", accept(*log, writer, 1, good, bad));
  while (good + bad < 2) loop.run_once(milliseconds(1000));
  BOOST_TEST(good == 2);
  BOOST_TEST(failure == "");
  BOOST_TEST(log->figures().commits_beside == 1u);
}

BOOST_FIXTURE_TEST_CASE(who_begins_to_wait_while_the_commit_is_in_hand_is_woken_by_it, Meeting) {
  const auto appended = log->append(envelope(0));
  BOOST_REQUIRE(appended.has_value());
  writer.kick();
  while (!writer.busy()) loop.run_once(milliseconds(1000));
  bool woken = false;
  loop.spawn("late", [](Writer& w, Ticket ticket, bool& done) -> async::Task<void> {
    done = (co_await w.committed(ticket)).has_value();
  }(writer, appended->ticket, woken));
  loop.run_once(milliseconds(0));
  BOOST_TEST(log->commits().committed() < appended->ticket);
  storage.let_go();
  // Nothing else is appended: no later commit comes to wake it.
  for (int turns = 0; !woken && turns < 200; ++turns) loop.run_once(milliseconds(100));
  BOOST_TEST(woken);
  BOOST_TEST(failure == "");
}

BOOST_FIXTURE_TEST_CASE(everybody_who_waits_shares_a_commit, Edge) {
  auto storage = PosixStorage::open(scratch.file("log"));
  BOOST_REQUIRE(storage.has_value());
  int good = 0;
  int bad = 0;
  run(**storage, 50, good, bad);
  BOOST_TEST(good == 50);
  BOOST_TEST(bad == 0);
  BOOST_TEST(commits <= 20u);  // one for the messages, the rest fill the pool of segments
}

BOOST_FIXTURE_TEST_CASE(a_failed_sync_ends_every_wait_with_an_error, Edge) {
  testing::FaultStorage storage;
  storage.fail_sync = 1;
  int good = 0;
  int bad = 0;
  run(storage, 5, good, bad);
  BOOST_TEST(good == 0);
  BOOST_TEST(bad == 5);
  BOOST_TEST(!failure.empty());
}

BOOST_FIXTURE_TEST_CASE(files_hold_what_was_acknowledged, Edge) {
  int good = 0;
  int bad = 0;
  {
    auto storage = PosixStorage::open(scratch.file("log"));
    BOOST_REQUIRE(storage.has_value());
    run(**storage, 200, good, bad);
    BOOST_TEST(good == 200);
    BOOST_TEST(!PosixStorage::open(scratch.file("log")).has_value());  // in use
  }
  auto storage = PosixStorage::open(scratch.file("log"));
  BOOST_REQUIRE(storage.has_value());
  auto log = QueueLog::open(**storage, options, loop.clock(), random);
  BOOST_REQUIRE(log.has_value());
  while (*(*log)->restart().step(1 << 20) != Recovery::done)
    while (auto batch = (*log)->commits().next_batch()) {
      auto executed = batch->execute(**storage);
      BOOST_REQUIRE((*log)->commits().complete(*std::move(batch), std::move(executed)).has_value());
    }
  int found = 0;
  for (;;) {
    auto due = (*log)->runners().next_due(kJournal, loop.clock().wall_now());
    BOOST_REQUIRE(due.has_value());
    if (!due->message) {
      if (due->more) continue;
      break;
    }
    ++found;
    BOOST_REQUIRE((*log)->work().start(*due->message).has_value());
  }
  BOOST_TEST(found == 200);
  BOOST_TEST((*log)->restart().report().damage_count == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
