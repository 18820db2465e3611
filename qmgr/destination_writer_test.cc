/// destdb's file over a disk that works, fails, or hangs, and mail of a source that is warmed up.
#include "qmgr/destination_writer.h"

#include <boost/test/unit_test.hpp>

#include <condition_variable>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>

#include "lib/base/async/testing/run.h"
#include "lib/base/log.h"
#include "lib/send/egress/file.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

namespace pen::qmgr {
BOOST_AUTO_TEST_SUITE(destination_writer)

namespace {

class Disk : public destdb::File {
 public:
  Result<destdb::Contents> load() override { return destdb::Contents{}; }
  Result<void> write(const std::vector<destdb::Change>& changes) override {
    std::unique_lock lock(mutex_);
    ++writes_;
    released_.wait(lock, [this] { return !hangs_; });
    if (failures_ > 0) {
      --failures_;
      return fail_errno("data.mdb", EIO);
    }
    for (const auto& c : changes)
      if (c.note) notes_[c.key] = *c.note;
    return {};
  }
  void hang(bool hangs) {
    const std::lock_guard lock(mutex_);
    hangs_ = hangs;
    released_.notify_all();
  }
  void fail(int times) {
    const std::lock_guard lock(mutex_);
    failures_ = times;
  }
  std::size_t writes() {
    const std::lock_guard lock(mutex_);
    return writes_;
  }
  std::map<std::string, std::string> notes() {
    const std::lock_guard lock(mutex_);
    return notes_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable released_;
  bool hangs_ = false;
  int failures_ = 0;
  std::size_t writes_ = 0;
  std::map<std::string, std::string> notes_;
};

struct World {
  testing::ScratchDir scratch;
  async::Loop loop;
  async::HandlerPool pool{loop, 1};
  std::shared_ptr<Disk> disk = std::make_shared<Disk>();
  std::unique_ptr<destdb::DestDb> destinations = *destdb::DestDb::over(disk, loop.clock().wall_now());
  egress::File sources = egress::parse("source new warmup=yes\npool p new\n").file;
  egress::Ledger ledger{sources, {10, 100}};
  std::unique_ptr<DestinationWriter> writer;
  std::size_t waiting = 0, sent = 0, asked = 0;  // messages; and how often mail heard that counts are written

  World() {
    BOOST_REQUIRE(log::open({.program = "qmgr", .hostname = {}, .target = log::Target::file, .path = log_file()}));
  }
  ~World() {
    disk->hang(false);  // its thread is waited for
    BOOST_CHECK(log::open(log::Options{}));
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void start(milliseconds every = std::chrono::hours(1), milliseconds patience = std::chrono::hours(1)) {
    DestinationWriter::Edges edges;
    edges.ledger = &ledger;
    edges.counts_written = [this] {
      ++asked;
      go_on();
    };
    edges.every = every;
    edges.patience = patience;
    writer = std::make_unique<DestinationWriter>(loop, pool, *destinations, std::move(edges));
    loop.spawn("destinations", writer->run());
  }
  void send(std::size_t messages) {
    waiting += messages;
    go_on();
  }
  void go_on() {
    const WallTime now = loop.clock().wall_now();
    for (; waiting > 0 && ledger.obstacle(0, "far.example", now).empty(); --waiting, ++sent) {
      if (!ledger.reserved(0, "far.example", now)) return writer->write_counts();
      ledger.take(0, "far.example", now);
    }
  }
  bool write() { return async::testing::run(loop, writer->write()).has_value(); }
  void until(const std::function<bool()>& done) {
    for (int i = 0; i < 2000 && !done(); ++i) loop.run_once(milliseconds(10));
    BOOST_REQUIRE(done());
  }
  /// What a process that starts now takes the source to have sent.
  std::uint32_t taken_on_disk() {
    std::uint32_t taken = 0;
    for (const auto& [key, value] : disk->notes())
      if (const auto e = decode<egress::Entry>(value); e && e->source == "new") taken += e->taken;
    return taken;
  }
  std::string log_file() const { return scratch.file("log"); }
  std::size_t told(std::string_view words) const {
    std::ifstream in(log_file());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    std::size_t n = 0;
    for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++n;
    return n;
  }
};

}  // namespace

PEN_FIXTURE(World)

BOOST_AUTO_TEST_CASE(a_count_is_written_before_its_mail_goes_and_once) {
  start();
  disk->hang(true);
  destinations->note("other", "value");
  send(1);
  until([&] { return disk->writes() == 1; });
  BOOST_TEST(sent == 0U);
  BOOST_TEST(destinations->changes() == 1U);  // the other one: the count is not written with it once more
  disk->hang(false);
  until([&] { return sent == 1; });
  BOOST_TEST(taken_on_disk() == 1U);
  BOOST_TEST(disk->notes().size() == 1U);  // alone
  BOOST_TEST(write());
  BOOST_TEST(disk->notes().size() == 2U);
  const auto writes = disk->writes();
  BOOST_TEST(write());
  BOOST_TEST(disk->writes() == writes);
  BOOST_TEST(told("warning") == 0U);
}

BOOST_AUTO_TEST_CASE(a_disk_that_fails_once_holds_no_mail_is_told_and_has_the_count_with_the_next_write) {
  start();
  disk->fail(1);
  send(1);
  until([&] { return sent == 1; });
  BOOST_TEST(taken_on_disk() == 0U);
  BOOST_TEST(destinations->changes() == 1U);
  BOOST_TEST(told("warning: destination database: data.mdb: Input/output error; what was learned stays") == 1U);
  BOOST_TEST(write());
  BOOST_TEST(taken_on_disk() >= 1U);
}

BOOST_AUTO_TEST_CASE(a_disk_that_goes_on_failing_is_told_once) {
  disk->fail(1000);
  destinations->note("other", "value");
  start(milliseconds(5));
  send(5);
  until([&] { return sent == 5 && disk->writes() >= 10; });
  BOOST_TEST(told("Input/output error") == 1U);
  disk->fail(0);
  until([&] { return disk->notes().contains("other") && taken_on_disk() >= 5; });
}

BOOST_AUTO_TEST_CASE(a_disk_that_hangs_holds_mail_for_some_time_and_then_the_count_in_memory_does) {
  disk->hang(true);
  start(milliseconds(5), milliseconds(100));
  const SteadyTime began = loop.clock().now();
  send(8);
  until([&] { return sent == 8; });
  BOOST_TEST((loop.clock().now() - began >= milliseconds(100)));
  send(20);  // nothing waits now
  until([&] { return sent == 10; });
  BOOST_TEST(waiting == 18U);  // and the day's number holds
  BOOST_TEST(taken_on_disk() == 0U);
  BOOST_TEST(disk->writes() == 1U);
  BOOST_TEST(told("warning: destination database: a write to its disk has not ended in 1 s; what") == 1U);
  BOOST_TEST(told("warning") == 1U);
  disk->hang(false);
  until([&] { return taken_on_disk() == 10; });
  until([&] { return told("destination database: it is written again") == 1; });
  BOOST_TEST(sent == 10U);
}

BOOST_AUTO_TEST_CASE(after_a_disk_hung_counts_are_written_before_their_mail_goes_as_before) {
  disk->hang(true);
  start(std::chrono::hours(1), milliseconds(20));
  send(1);
  until([&] { return sent == 1; });
  disk->hang(false);
  until([&] { return told("it is written again") == 1; });
  const auto writes = disk->writes();
  send(2);
  until([&] { return sent == 3; });
  BOOST_TEST(disk->writes() > writes);
  BOOST_TEST(taken_on_disk() >= 3U);
}

BOOST_AUTO_TEST_CASE(a_disk_that_hangs_and_then_fails_is_told_as_both_and_written_again_when_it_is) {
  disk->hang(true);
  start(std::chrono::hours(1), milliseconds(20));
  send(1);
  until([&] { return sent == 1; });
  disk->fail(1);
  disk->hang(false);
  until([&] { return told("Input/output error") + told("it is written again") > 0; });
  BOOST_TEST(told("Input/output error") == 1U);
  BOOST_TEST(told("it is written again") == 0U);
  BOOST_TEST(write());
  BOOST_TEST(told("it is written again") == 1U);
  BOOST_TEST(write());
  BOOST_TEST(told("it is written again") == 1U);
}

BOOST_AUTO_TEST_CASE(an_order_waits_for_the_write_that_another_caller_began) {
  start();
  disk->hang(true);
  destinations->note("other", "value");
  std::size_t ended = 0;
  const auto caller = [](World& w, std::size_t& n) -> async::Task<void> {
    (void)co_await w.writer->write();
    ++n;
  };
  loop.spawn("first", caller(*this, ended));
  until([&] { return disk->writes() == 1; });
  loop.spawn("second", caller(*this, ended));
  for (int turn = 0; turn < 20; ++turn) loop.run_once(milliseconds(1));
  BOOST_TEST(ended == 0U);
  disk->hang(false);
  until([&] { return ended == 2; });
}

BOOST_AUTO_TEST_CASE(in_a_drain_no_mail_is_let_go_and_nothing_spins) {
  start();
  writer->drain();
  send(1);
  for (int turn = 0; turn < 20; ++turn) loop.run_once(milliseconds(1));
  BOOST_TEST(disk->writes() == 0U);
  BOOST_TEST(write());
  for (int turn = 0; turn < 20; ++turn) loop.run_once(milliseconds(1));
  BOOST_TEST(disk->writes() == 1U);
  BOOST_TEST(asked == 0U);
  BOOST_TEST(sent == 0U);
  BOOST_TEST(disk->notes().size() == 1U);
  BOOST_TEST(taken_on_disk() == 0U);  // exactly what was sent
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace pen::qmgr
