#include "lib/base/async/sync.h"

#include "lib/base/async/testing/run.h"
#include "lib/testing/counted.h"
#include "lib/testing/manual_clock.h"

namespace pen::async {
namespace {

using pen::testing::Counted;
using pen::testing::ManualClock;
using testing::run;
using testing::store_result;

struct Fixture {
  ManualClock clock;
  Loop loop{clock};
  ~Fixture() { BOOST_TEST(live_frames() == 0U); }
  void settle() {
    for (int i = 0; i < 5; ++i) loop.run_once();
  }
};

Task<Result<void>> wait_for(Event* event, Until until) { co_return co_await event->wait(until); }

Task<void> hold_permit(Semaphore* semaphore, Event* let_go, int* holders) {
  BOOST_TEST((co_await semaphore->acquire()).has_value());
  ++*holders;
  (void)co_await let_go->wait();
  --*holders;
  semaphore->release();
}

Task<void> sleep_in(Loop* loop, Cancel* cancel, Counted value) {
  (void)co_await loop->sleep(seconds(3600), {.cancel = cancel});
  (void)value;
}

BOOST_FIXTURE_TEST_SUITE(event, Fixture)

BOOST_AUTO_TEST_CASE(completes_at_once_when_set) {
  Event e(loop);
  e.set();
  BOOST_TEST(run(loop, wait_for(&e, {})).has_value());
}

BOOST_AUTO_TEST_CASE(wakes_all_waiters_through_the_ready_list) {
  Event e(loop);
  std::optional<Result<void>> one, two;
  loop.spawn("one", store_result(wait_for(&e, {}), &one));
  loop.spawn("two", store_result(wait_for(&e, {}), &two));
  settle();
  BOOST_TEST(!one.has_value());
  e.set();
  BOOST_TEST(!one.has_value());
  settle();
  BOOST_TEST(one.value().has_value());
  BOOST_TEST(two.value().has_value());
}

BOOST_AUTO_TEST_CASE(a_destroyed_waiter_is_withdrawn_even_when_already_woken) {
  Event e(loop);
  std::optional<Result<void>> one, two;
  {
    Gate gate(loop);
    gate.spawn("one", store_result(wait_for(&e, {.deadline = loop.now() + seconds(1)}), &one));
    settle();
  }
  e.set();
  e.reset();
  {
    Gate gate(loop);
    gate.spawn("two", store_result(wait_for(&e, {}), &two));
    settle();
    e.set();
  }
  clock.advance(seconds(2));
  settle();
  BOOST_TEST(!one.has_value());
  BOOST_TEST(!two.has_value());
}

BOOST_AUTO_TEST_CASE(set_cancel_and_deadline_in_one_turn_give_one_result_the_first) {
  for (int order = 0; order < 3; ++order) {
    Event e(loop);
    Cancel cancel;
    std::optional<Result<void>> got;
    loop.spawn("w", store_result(wait_for(&e, {loop.now() + seconds(1), &cancel}), &got));
    settle();
    if (order == 0) e.set();
    if (order == 1) cancel.raise();
    clock.advance(seconds(2));
    if (order == 2) loop.run_once();
    e.set();
    cancel.raise();
    settle();
    if (order == 0) BOOST_TEST(got.value().has_value());
    if (order == 1) BOOST_TEST(got.value().error().is(WaitError::cancelled));
    if (order == 2) BOOST_TEST(got.value().error().is(WaitError::timed_out));
  }
}

BOOST_AUTO_TEST_CASE(a_deadline_already_past_ends_the_wait) {
  Event e(loop);
  BOOST_TEST(run(loop, wait_for(&e, {.deadline = loop.now() - seconds(1)})).error().is(WaitError::timed_out));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(gate, Fixture)

BOOST_AUTO_TEST_CASE(cancel_reaches_all_tasks_and_drained_waits_for_them) {
  Counted::reset();
  Gate g(loop);
  for (int i = 0; i < 3; ++i) g.spawn("task", sleep_in(&loop, &g.cancel(), Counted(i)));
  settle();
  BOOST_TEST(g.size() == 3U);
  BOOST_TEST(g.list().size() == 3U);
  BOOST_TEST(loop.list_tasks().size() == 3U);
  std::optional<Result<void>> drained;
  loop.spawn("drain", store_result(g.drained(), &drained));
  settle();
  BOOST_TEST(!drained.has_value());
  g.cancel().raise();
  settle();
  BOOST_TEST(drained.value().has_value());
  BOOST_TEST(Counted::alive == 0);
  BOOST_TEST(run(loop, g.drained()).has_value());
}

BOOST_AUTO_TEST_CASE(destroying_it_destroys_its_tasks_started_or_not) {
  Counted::reset();
  {
    Gate g(loop);
    g.spawn("started", sleep_in(&loop, nullptr, Counted(1)));
    settle();
    g.spawn("not started", sleep_in(&loop, nullptr, Counted(2)));
    BOOST_TEST(Counted::alive == 2);
  }
  BOOST_TEST(Counted::alive == 0);
  BOOST_TEST(loop.spawned() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(semaphore, Fixture)

BOOST_AUTO_TEST_CASE(gives_permits_in_order_and_never_too_many) {
  Semaphore s(loop, 2);
  Event let_go(loop);
  int holders = 0;
  for (int i = 0; i < 5; ++i) loop.spawn("h", hold_permit(&s, &let_go, &holders));
  settle();
  BOOST_TEST(holders == 2);
  BOOST_TEST(!s.try_acquire());
  let_go.set();
  settle();
  BOOST_TEST(holders == 0);
  BOOST_TEST(s.free() == 2U);
}

BOOST_AUTO_TEST_CASE(a_permit_given_to_a_waiter_that_dies_goes_to_the_next) {
  Semaphore s(loop, 1);
  BOOST_TEST(s.try_acquire());
  std::optional<Result<void>> next, dead;
  {
    Gate gate(loop);
    gate.spawn("dies", store_result(s.acquire(), &dead));
    settle();
    loop.spawn("next", store_result(s.acquire(), &next));
    settle();
    s.release();  // granted to "dies", which is destroyed before it runs
  }
  settle();
  BOOST_TEST(!dead.has_value());
  BOOST_TEST(next.value().has_value());
  s.release();
  BOOST_TEST(s.free() == 1U);
}

BOOST_AUTO_TEST_CASE(a_waiter_that_gives_up_takes_no_permit) {
  Semaphore s(loop, 1);
  BOOST_TEST(s.try_acquire());
  Cancel cancel;
  std::optional<Result<void>> cancelled, late;
  loop.spawn("c", store_result(s.acquire({.cancel = &cancel}), &cancelled));
  loop.spawn("l", store_result(s.acquire({.deadline = loop.now() + seconds(1)}), &late));
  settle();
  cancel.raise();
  clock.advance(seconds(2));
  settle();
  BOOST_TEST(cancelled.value().error().is(WaitError::cancelled));
  BOOST_TEST(late.value().error().is(WaitError::timed_out));
  s.release();
  BOOST_TEST(s.free() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::async
