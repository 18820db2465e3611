#include "qmgr/scheduler/spent.h"

#include <boost/test/unit_test.hpp>

#include "qmgr/scheduler/gate.h"

namespace pen::qmgr::scheduler {
namespace {

struct Quotas {
  Clock clock;
  SpentQuotas spent{clock};
  std::map<std::string, std::string> disk;

  Quotas() { pass(seconds(1000)); }
  void pass(seconds time) {
    clock.now += time;
    clock.wall += time;
  }
  static void add_window(Gate& g, shaping::Quota quota) {
    g.quotas.emplace_back().whole = quota;
    g.quotas.back().window.set(quota);
  }
  static void give(Gate& g, std::string name, shaping::Quota quota = {10, seconds(60)}) {
    g.name = std::move(name);
    g.bucket.set(shaping::Rate::per_second(1), SteadyTime{});
    add_window(g, quota);
  }
  void go(Gate& g) {
    for (GateQuota& q : g.quotas) q.window.take(clock.now);
    spent.used(g);
  }
  /// Returns how many records changed.
  std::size_t write(bool last = false) {
    const auto changes = spent.take_changes(last);
    for (const auto& c : changes) {
      disk.erase(c.key);
      if (c.value) disk[c.key] = *c.value;
    }
    return changes.size();
  }
  /// What a process finds that begins now.
  std::uint64_t found(const std::string& name) {
    SpentQuotas next(clock);
    for (const auto& [key, value] : disk) (void)next.load(key, value);
    Gate g;
    give(g, name);
    next.recall(g);
    return g.quotas.front().window.used(clock.now);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(spent_quotas, Quotas)

BOOST_AUTO_TEST_CASE(a_record_is_written_while_mail_goes_once_more_after_it_and_then_goes) {
  Gate g;
  give(g, "tenant:a");
  BOOST_TEST(write() == 0U);
  go(g);
  BOOST_TEST(write() == 1U);
  pass(seconds(5));
  BOOST_TEST(write() == 1U);  // nothing more went: now it says so
  BOOST_TEST(write() == 0U);
  BOOST_TEST(found("tenant:a") == 1U);
  BOOST_TEST(found("tenant:b") == 0U);
  pass(seconds(55));
  BOOST_TEST(found("tenant:a") == 0U);
  BOOST_TEST(write() == 1U);
  BOOST_TEST(disk.empty());
  BOOST_TEST(write() == 0U);
}

BOOST_AUTO_TEST_CASE(after_a_kill_as_many_count_as_could_have_gone) {
  Gate g;
  give(g, "tenant:a", {100, seconds(60)});
  go(g);
  write();
  pass(seconds(3));
  BOOST_TEST(found("tenant:a") == 10U);  // of its ten
  write(true);
  BOOST_TEST(found("tenant:a") == 1U);
}

BOOST_AUTO_TEST_CASE(a_window_that_a_gate_gets_later_begins_with_what_is_known_of_it) {
  const shaping::Quota hour{100, seconds(3600)};
  Gate g;
  give(g, "tenant:a");
  add_window(g, hour);
  go(g);
  write(true);
  SpentQuotas next(clock);
  for (const auto& [key, value] : disk) BOOST_TEST(next.load(key, value));
  Gate again;
  give(again, "tenant:a");
  next.recall(again);
  BOOST_TEST(again.quotas.front().window.used(clock.now) == 1U);
  add_window(again, hour);
  next.recall(again);
  BOOST_TEST(again.quotas.back().window.used(clock.now) == 1U);
  BOOST_TEST(again.quotas.front().window.used(clock.now) == 1U);  // not once more
  next.recall(again);
  BOOST_TEST(again.quotas.back().window.used(clock.now) == 1U);
}

BOOST_AUTO_TEST_CASE(a_gate_that_only_seemed_to_go_keeps_its_record) {
  Gate g;
  give(g, "tenant:a");
  go(g);
  write();
  spent.leaves(g);
  pass(seconds(30));
  go(g);
  write();
  pass(seconds(40));  // the first is over
  write();
  BOOST_TEST(disk.size() == 1U);
  BOOST_TEST(found("tenant:a") == 1U);
}

BOOST_AUTO_TEST_CASE(what_is_known_of_gates_that_went_is_written_and_dropped_when_it_is_over) {
  {
    Gate g;
    give(g, "tenant:a");
    go(g);
    spent.leaves(g);
  }
  BOOST_TEST(write() == 1U);
  BOOST_TEST(write() == 0U);
  BOOST_TEST(found("tenant:a") == 1U);
  pass(seconds(61));
  BOOST_TEST(write() == 1U);
  BOOST_TEST(disk.empty());
  BOOST_TEST(!spent.load("quota x", "junk"));
}

BOOST_AUTO_TEST_CASE(a_clock_that_was_put_back_closes_nothing_for_longer_than_its_time) {
  Gate g;
  give(g, "tenant:a");
  go(g);
  write(true);
  clock.wall -= std::chrono::hours(5);
  BOOST_TEST(found("tenant:a") == 1U);
  SpentQuotas next(clock);
  for (const auto& [key, value] : disk) (void)next.load(key, value);
  Gate again;
  give(again, "tenant:a");
  next.recall(again);
  BOOST_TEST(again.quotas.front().window.used(clock.now + seconds(60)) == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace pen::qmgr::scheduler
