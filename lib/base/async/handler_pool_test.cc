#include "lib/base/async/handler_pool.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <thread>

#include "lib/base/async/borrowed.h"
#include "lib/base/async/file.h"
#include "lib/base/async/sync.h"
#include "lib/base/async/testing/run.h"
#include "lib/testing/scratch.h"

namespace pen::async {
namespace {

using testing::run;
using testing::store_result;

struct Fixture {
  Loop loop;
  ~Fixture() { BOOST_TEST(live_frames() == 0U); }
  void settle() {
    for (int i = 0; i < 5; ++i) loop.run_once();
  }
  template <class Condition>
  void run_until(Condition condition) {
    for (int i = 0; i < 10000 && !condition(); ++i) loop.run_once(milliseconds(10));
    BOOST_REQUIRE(condition());
  }
};

BOOST_FIXTURE_TEST_SUITE(handler_pool, Fixture)

BOOST_AUTO_TEST_CASE(work_runs_elsewhere_and_its_result_comes_back_here) {
  HandlerPool pool(loop, 2);
  const auto here = std::this_thread::get_id();
  const auto there = run(loop, pool.run([] { return std::this_thread::get_id(); }));
  BOOST_TEST((here != there));
  BOOST_TEST(run(loop, pool.run([] { return 6 * 7; })) == 42);
}

BOOST_AUTO_TEST_CASE(run_waits_for_running_work) {
  HandlerPool pool(loop, 1);
  std::optional<int> got;
  loop.spawn("w", store_result(pool.run([] { return 1; }), &got));
  loop.run();
  BOOST_TEST(got.value() == 1);
}

BOOST_AUTO_TEST_CASE(a_destroyed_waiter_leaves_the_work_to_run_to_its_end) {
  HandlerPool pool(loop, 1);
  auto gate_open = std::make_shared<std::latch>(1);
  auto finished = std::make_shared<std::atomic<int>>(0);
  std::optional<int> got;
  {
    Gate gate(loop);
    gate.spawn("w", store_result(pool.run([=] {
                 gate_open->wait();
                 return ++*finished;
               }),
                                 &got));
    settle();
  }
  gate_open->count_down();
  BOOST_TEST(run(loop, pool.run([finished] { return finished->load(); })) == 1);
  BOOST_TEST(!got.has_value());
}

BOOST_AUTO_TEST_CASE(its_end_waits_for_running_work_and_drops_what_waits) {
  auto started = std::make_shared<std::latch>(1);
  auto ran = std::make_shared<std::atomic<int>>(0);
  std::optional<int> one, two;
  Gate gate(loop);
  {
    HandlerPool pool(loop, 1);
    gate.spawn("1", store_result(pool.run([=] {
                 started->count_down();
                 return ++*ran;
               }),
                                 &one));
    gate.spawn("2", store_result(pool.run([=] { return 0; }), &two));
    settle();
    started->wait();
  }
  BOOST_TEST(ran->load() == 1);
}

BOOST_AUTO_TEST_CASE(work_that_borrows_has_ended_or_never_begins_when_its_owner_is_gone) {
  HandlerPool pool(loop, 1);
  const auto started = std::make_shared<std::latch>(1), go_on = std::make_shared<std::latch>(1);
  std::atomic<int> ended = 0, second = 0;
  std::optional<int> one, two;
  {
    Gate gate(loop);
    gate.spawn("1", store_result(run_borrowing(pool,
                                               [&] {
                                                 started->count_down();
                                                 go_on->wait();
                                                 return ++ended;
                                               }),
                                 &one));
    gate.spawn("2", store_result(run_borrowing(pool, [&] { return ++second; }), &two));
    settle();
    started->wait();
    go_on->count_down();
  }
  BOOST_TEST(ended == 1);
  BOOST_TEST(run(loop, run_borrowing(pool, [&] { return 7; })) == 7);
  BOOST_TEST(second <= 1);
}

BOOST_AUTO_TEST_CASE(beyond_its_queue_callers_wait_for_room_and_all_are_served) {
  HandlerPool pool(loop, 1, 2);
  auto gate_open = std::make_shared<std::latch>(1);
  std::vector<std::optional<int>> got(20);
  for (int i = 0; i < 20; ++i) {
    loop.spawn("w", store_result(pool.run([gate_open, i] {
                 gate_open->wait();
                 return i;
               }),
                                 &got[static_cast<std::size_t>(i)]));
  }
  settle();
  BOOST_TEST(pool.waiting() <= 3U);
  gate_open->count_down();
  run_until([&] { return got.back().has_value(); });
  for (int i = 0; i < 20; ++i) BOOST_TEST(got[static_cast<std::size_t>(i)].value() == i);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(file, Fixture)

BOOST_AUTO_TEST_CASE(reads_back_what_was_written_where_it_was_written) {
  const pen::testing::ScratchDir dir;
  HandlerPool pool(loop, 2);
  const File f = run(loop, File::open(pool, dir.file("f"), O_RDWR | O_CREAT)).value();
  BOOST_TEST(run(loop, f.pwrite("world", 6)).has_value());
  BOOST_TEST(run(loop, f.pwrite("hello ", 0)).has_value());
  BOOST_TEST(run(loop, f.sync()).has_value());
  BOOST_TEST(run(loop, f.pread(100, 0)).value() == "hello world");
  BOOST_TEST(run(loop, f.pread(3, 4)).value() == "o w");
}

BOOST_AUTO_TEST_CASE(an_error_carries_its_errno) {
  const pen::testing::ScratchDir dir;
  HandlerPool pool(loop, 1);
  BOOST_TEST(run(loop, File::open(pool, dir.file("none"), O_RDONLY)).error().is_errno(ENOENT));
  const File f = run(loop, File::open(pool, "/dev/full", O_WRONLY)).value();
  BOOST_TEST(run(loop, f.pwrite("x", 0)).error().is_errno(ENOSPC));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::async
