#include "lib/base/async/loop.h"

#include <signal.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "lib/base/async/poll.h"
#include "lib/base/async/sync.h"
#include "lib/base/async/testing/run.h"
#include "lib/base/random.h"
#include "lib/testing/counted.h"
#include "lib/testing/manual_clock.h"

namespace pen::async {
namespace {

using pen::testing::Counted;
using pen::testing::ManualClock;
using testing::run;

Task<int> immediate(int value) { co_return value; }

Task<long> add_up(int times) {
  long sum = 0;
  for (int i = 0; i < times; ++i) sum += co_await immediate(1);
  co_return sum;
}

Task<int> one_after_yield(Loop* loop) {
  co_await loop->yield();
  co_return 1;
}

Task<long> add_up_suspending(Loop* loop, int times) {
  long sum = 0;
  for (int i = 0; i < times; ++i) sum += co_await one_after_yield(loop);
  co_return sum;
}

Task<Counted> make_counted(Loop* loop, bool suspend) {
  Counted value(7);
  if (suspend) co_await loop->yield();
  co_return value;
}

Task<void> keep(Loop* loop, Counted value, Until until) {
  (void)co_await loop->sleep(seconds(3600), until);
  (void)value;
}

Task<void> note(std::string* log, char c) {
  log->push_back(c);
  co_return;
}

Task<void> note_twice(Loop* loop, std::string* log, char c) {
  log->push_back(c);
  co_await loop->yield();
  log->push_back(c);
}

void settle(Loop& loop) {
  for (int i = 0; i < 5; ++i) loop.run_once();
}

BOOST_AUTO_TEST_SUITE(loop_and_task)

BOOST_AUTO_TEST_CASE(a_million_awaits_that_end_at_once_keep_the_stack_flat) {
  Loop loop;
  BOOST_TEST(run(loop, add_up(1'000'000)) == 1'000'000);
  BOOST_TEST(live_frames() == 0U);
}

BOOST_AUTO_TEST_CASE(awaits_that_suspend_keep_the_stack_flat_too) {
  Loop loop;
  BOOST_TEST(run(loop, add_up_suspending(&loop, 200'000)) == 200'000);
  BOOST_TEST(live_frames() == 0U);
}

BOOST_AUTO_TEST_CASE(a_result_is_moved_and_never_copied) {
  Loop loop;
  for (const bool suspend : {false, true}) {
    Counted::reset();
    BOOST_TEST(run(loop, make_counted(&loop, suspend)).value == 7);
    BOOST_TEST(Counted::copies == 0);
    BOOST_TEST(Counted::alive == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_task_never_started_frees_its_parameters) {
  Loop loop;
  Counted::reset();
  {
    const Task<void> task = keep(&loop, Counted(1), {});
  }
  BOOST_TEST(Counted::alive == 0);
  BOOST_TEST(live_frames() == 0U);
}

BOOST_AUTO_TEST_CASE(the_loop_destroys_what_still_lives_and_its_wait_is_withdrawn) {
  Counted::reset();
  Cancel cancel;
  {
    Loop loop;
    loop.spawn("sleeper", keep(&loop, Counted(1), {.cancel = &cancel}));
    settle(loop);
    BOOST_TEST(Counted::alive == 1);
    BOOST_TEST(loop.spawned() == 1U);
    BOOST_TEST(loop.list_tasks().at(0).starts_with("sleeper "));
  }
  BOOST_TEST(Counted::alive == 0);
  BOOST_TEST(live_frames() == 0U);
  cancel.raise();  // nobody waits any more
}

BOOST_AUTO_TEST_CASE(a_spawned_task_starts_through_the_ready_list_in_order) {
  Loop loop;
  std::string log;
  loop.spawn("a", note_twice(&loop, &log, 'a'));
  loop.spawn("b", note_twice(&loop, &log, 'b'));
  loop.post([&] { log.push_back('p'); });
  BOOST_TEST(log.empty());
  settle(loop);
  BOOST_TEST(log == "pabab");
}

BOOST_AUTO_TEST_CASE(sleep_ends_after_its_time_and_not_before) {
  ManualClock clock;
  Loop loop(clock);
  for (const auto time : {milliseconds(1), milliseconds(500), milliseconds(70'000), milliseconds(5'000'000)}) {
    std::optional<Result<void>> done;
    loop.spawn("sleep", testing::store_result(loop.sleep(time), &done));
    settle(loop);
    clock.advance(time - milliseconds(1));
    settle(loop);
    BOOST_TEST(!done.has_value());
    clock.advance(milliseconds(1) + detail::TimerWheel::kTick);
    settle(loop);
    BOOST_TEST(done.value().has_value());
  }
}

BOOST_AUTO_TEST_CASE(sleep_tells_a_deadline_and_a_cancel_apart) {
  ManualClock clock;
  Loop loop(clock);
  Cancel cancel;
  std::optional<Result<void>> late, called_off, before;
  loop.spawn("a", testing::store_result(loop.sleep(seconds(9), {.deadline = loop.now() + seconds(3)}), &late));
  loop.spawn("b", testing::store_result(loop.sleep(seconds(9), {.cancel = &cancel}), &called_off));
  settle(loop);
  clock.advance(seconds(4));
  cancel.raise();
  settle(loop);
  BOOST_TEST(late.value().error().is(WaitError::timed_out));
  BOOST_TEST(called_off.value().error().is(WaitError::cancelled));
  loop.spawn("c", testing::store_result(loop.sleep(seconds(9), {.cancel = &cancel}), &before));
  settle(loop);
  BOOST_TEST(before.value().error().is(WaitError::cancelled));
}

BOOST_AUTO_TEST_CASE(callback_timers_fire_once_and_die_with_their_handle) {
  ManualClock clock;
  Loop loop(clock);
  int fired = 0;
  Loop::TimerHandle self;
  auto kept = loop.call_at(loop.now() + seconds(1), [&] { ++fired; });
  auto dropped = loop.call_at(loop.now() + seconds(1), [&] { fired += 100; });
  self = loop.call_at(loop.now() + seconds(1), [&] {
    ++fired;
    self.reset();
  });
  dropped.reset();
  settle(loop);
  clock.advance(seconds(2));
  settle(loop);
  clock.advance(seconds(2));
  settle(loop);
  BOOST_TEST(fired == 2);
}

BOOST_AUTO_TEST_CASE(a_timer_that_comes_due_during_a_long_turn_fires_with_no_other_event) {
  const Clock& clock = system_clock();
  Loop loop(clock);
  bool fired = false;
  const auto timer = loop.call_at(loop.now() + milliseconds(2), [&] {
    fired = true;
    loop.stop();
  });
  loop.post([&] {
    const auto end = clock.now() + milliseconds(50);  // longer than one tick of the wheel
    while (clock.now() < end) continue;
  });
  std::mutex mutex;
  std::condition_variable over;
  bool ended = false;
  std::jthread rescue([&] {
    std::unique_lock lock(mutex);
    if (!over.wait_for(lock, seconds(10), [&] { return ended; })) loop.stop_from_thread();
  });
  loop.run();
  const std::lock_guard lock(mutex);
  ended = true;
  over.notify_all();
  BOOST_TEST(fired);
}

BOOST_AUTO_TEST_CASE(run_ends_when_nothing_can_happen_any_more) {
  Loop loop;
  std::string log;
  loop.spawn("a", note(&log, 'a'));
  Event never(loop);
  std::optional<Result<void>> waited;
  Gate gate(loop);
  gate.spawn("stuck", testing::store_result(gate.drained(), &waited));
  loop.run();
  BOOST_TEST(log == "a");
}

BOOST_AUTO_TEST_CASE(other_threads_reach_the_loop_by_post_and_stop) {
  Loop loop;
  int got = 0;
  loop.hold();
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) loop.post_from_thread([&] { ++got; });
    loop.stop_from_thread();
  });
  loop.run();
  other.join();
  settle(loop);
  BOOST_TEST(got == 100);
}

BOOST_AUTO_TEST_CASE(a_signal_arrives_in_the_loop) {
  Loop loop;
  int got = 0;
  BOOST_TEST(loop.on_signal(SIGUSR2, [&](int signo) { got = signo; }).has_value());
  ::raise(SIGUSR2);
  for (int i = 0; i < 100 && got == 0; ++i) loop.run_once(milliseconds(10));
  BOOST_TEST(got == SIGUSR2);
}

/// Imitates a program that slept for an hour: the turn begins at one time, and the event that ends its wait for I/O
/// comes at a later one.
Task<void> sleep_until_signalled(ManualClock* clock) {
  ::raise(SIGUSR2);
  clock->advance(seconds(3600));
  co_return;
}

BOOST_AUTO_TEST_CASE(a_signal_function_has_the_time_of_now_however_long_the_loop_slept) {
  ManualClock clock;
  Loop loop(clock);
  const SteadyTime before = loop.now();
  SteadyTime seen = kNever;
  Loop::TimerHandle limit;
  bool over = false;
  BOOST_TEST(loop.on_signal(SIGUSR2,
                            [&](int) {
                              seen = loop.now();
                              limit = loop.call_at(loop.now() + seconds(5), [&over] { over = true; });
                            })
                 .has_value());
  loop.spawn("sleep", sleep_until_signalled(&clock));
  for (int i = 0; i < 100 && seen == kNever; ++i) loop.run_once(milliseconds(10));
  BOOST_TEST((seen == before + seconds(3600)));
  settle(loop);
  BOOST_TEST(!over);  // the five seconds have only begun
  clock.advance(seconds(6));
  settle(loop);
  BOOST_TEST(over);
}

/// Reads the time inside a poll event.
struct TimeOfEvent final : detail::PollClient {
  explicit TimeOfEvent(Loop& l) : loop(l), poll(l, *this) {}
  void on_ready(bool, bool) override {
    if (seen == kNever) seen = loop.now();
    poll.drop_write();
  }
  bool waiting() const override { return seen == kNever; }
  Loop& loop;
  detail::Poll poll;
  SteadyTime seen = kNever;
};

Task<void> advance(ManualClock* clock, std::chrono::nanoseconds by) {
  clock->advance(by);
  co_return;
}

BOOST_AUTO_TEST_CASE(an_event_of_a_descriptor_has_the_time_of_now_too) {
  ManualClock clock;
  Loop loop(clock);
  const SteadyTime before = loop.now();
  const auto pair = testing::stream_pair(loop);
  TimeOfEvent event(loop);
  BOOST_TEST(event.poll.want_write(pair.a.fd()) == 0);
  loop.spawn("time passes", advance(&clock, seconds(3600)));
  for (int i = 0; i < 100 && event.waiting(); ++i) loop.run_once(milliseconds(10));
  BOOST_TEST((event.seen == before + seconds(3600)));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(timer_wheel)

struct Alarm : detail::WheelNode {
  SteadyTime fired = kNever;
  const SteadyTime* now = nullptr;
};

BOOST_AUTO_TEST_CASE(every_deadline_fires_within_one_tick_after_it_whatever_the_steps) {
  const unsigned seed = 20261121;
  BOOST_TEST_MESSAGE("seed " << seed);
  Random random(seed);
  SteadyTime now{seconds(1000) + milliseconds(3)};
  const SteadyTime start = now;
  detail::TimerWheel wheel(now);
  std::vector<std::unique_ptr<Alarm>> alarms;
  const std::uint64_t horizons[] = {1'000, 60'000, 3'600'000, 400'000'000};
  for (int i = 0; i < 2000; ++i) {
    auto alarm = std::make_unique<Alarm>();
    alarm->now = &now;
    alarm->fire = [](detail::WheelNode& node) {
      auto& self = static_cast<Alarm&>(node);
      BOOST_REQUIRE((self.fired == kNever));
      self.fired = *self.now;
    };
    wheel.insert(*alarm, start + milliseconds(random.below(horizons[random.below(4)])));
    alarms.push_back(std::move(alarm));
  }
  alarms.resize(1900);  // the last hundred withdraw by their destruction
  while (wheel.next() != kNever) {
    const SteadyTime before = now;
    now = random.chance(0.5) ? std::max(wheel.next(), now + milliseconds(1)) : now + milliseconds(random.below(20'000));
    wheel.advance(now);
    for (const auto& alarm : alarms) {
      const bool due = alarm->deadline + detail::TimerWheel::kTick <= now;
      if (alarm->fired == kNever) {
        BOOST_REQUIRE(!due);
      } else if (alarm->fired == now) {
        BOOST_REQUIRE(alarm->deadline <= now);
        BOOST_REQUIRE(alarm->deadline + detail::TimerWheel::kTick > before);
      }
    }
  }
  for (const auto& alarm : alarms) BOOST_REQUIRE(alarm->fired != kNever);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::async
