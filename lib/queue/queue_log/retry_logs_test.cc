// When deferred messages are due, with a log per interval and with one for all.
#include "lib/queue/queue_log/queue_fixture.h"

using namespace pen;
using namespace pen::queue_log;

namespace {

/// All intervals in one log: each runner finds its own messages, in order, whatever lies between them.
struct SingleLog : Queue {
  SingleLog() {
    log.reset();
    disk = FaultStorage();
    options.retry_logs = RetryLogs::single;
    options.intervals = {seconds(300), seconds(600), seconds(1200)};
    open();
    recover();
  }
  static constexpr LogId k300 = kFirstRetry, k600 = kFirstRetry + 1, k1200 = kFirstRetry + 2;
  /// Accepts a message, or takes up the one given, and defers it.
  void defer(const std::string& id, LogId interval, std::size_t bytes = 5) {
    accept(envelope(id));
    BOOST_REQUIRE(log->work().start(*due()).has_value());
    again(id, interval, bytes);
  }
  void again(const std::string& id, LogId interval, std::size_t bytes = 5) {
    BOOST_REQUIRE(log->work().defer(id, interval, envelope(id, std::string(bytes, 'x'))).has_value());
    log->commits().flush();
    commit();
  }
  std::string take(LogId interval) {
    auto m = due(interval);
    if (!m) return {};
    BOOST_REQUIRE(log->work().start(*m).has_value());
    return m->envelope.queue_id;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(queue_log)

BOOST_AUTO_TEST_CASE(mail_for_later_has_logs_above_and_below_the_others) {
  const auto ladder = with_release_logs(retry_ladder(seconds(300), seconds(4000)), seconds(2'592'000));
  const std::vector<seconds> expected{seconds(4),     seconds(18),    seconds(75),     seconds(300),
                                      seconds(600),   seconds(1200),  seconds(2400),   seconds(4000),
                                      seconds(16000), seconds(64000), seconds(256000), seconds(1024000)};
  BOOST_TEST((ladder == expected));
  BOOST_TEST((with_release_logs({seconds(5)}, seconds(10)) == std::vector<seconds>{seconds(5)}));
  BOOST_TEST(with_release_logs(retry_ladder(seconds(1), seconds(31'536'000)), seconds(31'536'000)).size() <= 32U);
}

BOOST_AUTO_TEST_CASE(intervals_double_from_the_shortest_to_the_longest) {
  using Ladder = std::vector<seconds>;
  const auto same = [](const Ladder& made, const Ladder& expected) { return made == expected; };
  BOOST_TEST(same(retry_ladder(seconds(300), seconds(4000)),
                  {seconds(300), seconds(600), seconds(1200), seconds(2400), seconds(4000)}));
  BOOST_TEST(same(retry_ladder(seconds(300), seconds(1200)), {seconds(300), seconds(600), seconds(1200)}));
  BOOST_TEST(same(retry_ladder(seconds(300), seconds(301)), {seconds(300), seconds(301)}));
  BOOST_TEST(same(retry_ladder(seconds(300), seconds(300)), {seconds(300)}));
  BOOST_TEST(same(retry_ladder(seconds(300), seconds(60)), {seconds(300)}));
  BOOST_TEST(same(retry_ladder(seconds(0), seconds(0)), {seconds(1)}));
  const Ladder longest = retry_ladder(seconds(1), seconds(std::int64_t{1} << 40));
  BOOST_TEST(longest.size() == 32U);  // of which each has a log
  BOOST_TEST((longest.back() == seconds(std::int64_t{1} << 40)));
}

BOOST_FIXTURE_TEST_CASE(a_deferred_message_is_due_after_its_interval_in_its_retry_log, Queue) {
  recover();
  accept(envelope("one"));
  BOOST_REQUIRE(log->work().start(*due()).has_value());
  BOOST_REQUIRE(log->work().defer("one", kFirstRetry, envelope("one", "second")).has_value());
  log->commits().flush();
  commit();
  BOOST_TEST(!due(kFirstRetry).has_value());
  clock.advance(seconds(299));
  BOOST_TEST(!due(kFirstRetry).has_value());
  clock.advance(seconds(1));
  auto m = due(kFirstRetry);
  BOOST_REQUIRE(m.has_value());
  BOOST_TEST(m->envelope.payload == "second");
  BOOST_TEST(m->generation == 1u);
  BOOST_REQUIRE(log->work().start(*m).has_value());
  BOOST_REQUIRE(log->work().finish("one").has_value());
  log->commits().flush();
  commit();
  restart(FaultStorage::Cut::all);
  clock.advance(seconds(1000));
  BOOST_TEST(!due(kFirstRetry).has_value());
  BOOST_TEST(!due().has_value());
}

BOOST_FIXTURE_TEST_CASE(a_clock_set_back_does_not_hold_up_the_retry_logs, Queue) {
  recover();
  accept(envelope("one"));
  BOOST_REQUIRE(log->work().start(*due()).has_value());
  BOOST_REQUIRE(log->work().defer("one", kFirstRetry, envelope("one")).has_value());
  log->commits().flush();
  commit();
  clock.step_wall(-std::chrono::hours(24 * 365));
  bool found = due(kFirstRetry).has_value();
  for (int i = 0; i < 10 && !found; ++i) {
    clock.advance(seconds(60));
    found = due(kFirstRetry).has_value();
  }
  BOOST_TEST(found);
}

BOOST_FIXTURE_TEST_CASE(runners_of_one_log_pass_over_what_belongs_to_the_others, SingleLog) {
  defer("a", k1200);
  defer("b", k300);
  defer("c", k600);
  defer("d", k300);
  BOOST_TEST(take(k300) == "");
  clock.advance(seconds(300));
  BOOST_TEST(take(k300) == "b");
  BOOST_TEST(take(k300) == "d");
  BOOST_TEST(take(k300) == "");
  BOOST_TEST(take(k600) == "");
  again("b", k600);
  clock.advance(seconds(300));
  BOOST_TEST(take(k600) == "c");
  BOOST_TEST(take(k600) == "");
  clock.advance(seconds(600));
  BOOST_TEST(take(k600) == "b");
  BOOST_TEST(take(k1200) == "a");
  BOOST_TEST(take(k1200) == "");
}

BOOST_FIXTURE_TEST_CASE(a_single_log_gives_back_what_lies_behind_its_slowest_runner, SingleLog) {
  defer("old", k1200);
  for (int i = 0; i < 20; ++i) {
    defer("m" + std::to_string(i), k300, 3000);
    clock.advance(seconds(300));
    BOOST_REQUIRE(take(k300) == "m" + std::to_string(i));
    BOOST_REQUIRE(log->work().finish("m" + std::to_string(i)).has_value());
  }
  const auto settle = [&] {
    for (int i = 0; i < 3; ++i) {
      log->commits().save_positions();
      commit();
    }
  };
  settle();
  const auto held = log->figures().segments_used;
  BOOST_TEST(take(k1200) == "old");
  due(k600);  // with nothing of its own it goes to the end
  due(k1200);
  settle();
  const auto pinned = log->figures().segments_used;
  BOOST_TEST(pinned <= held);  // the envelope's segment stays while its work lasts
  BOOST_REQUIRE(log->work().finish("old").has_value());
  settle();
  settle();
  BOOST_TEST(log->figures().segments_used + 3 <= held);
}

BOOST_FIXTURE_TEST_CASE(a_queue_in_one_form_is_run_in_the_other_and_with_other_intervals, SingleLog) {
  defer("a", k1200);
  defer("b", k300);
  defer("c", k600);
  options.intervals = {seconds(500), seconds(700)};
  restart(FaultStorage::Cut::none);
  clock.advance(seconds(300));
  BOOST_TEST(take(kFirstRetry) == "b");
  defer("d", kFirstRetry + 1);
  log->commits().save_positions();
  commit();
  options.retry_logs = RetryLogs::many;
  restart(FaultStorage::Cut::none);
  clock.advance(seconds(10000));
  std::multiset<std::string> found;
  for (LogId id = 0; id < log->runners().log_count(); ++id) {
    if (id == kHold) continue;
    for (std::string one = take(id); !one.empty(); one = take(id)) found.insert(one);
  }
  BOOST_TEST((found == std::multiset<std::string>{"a", "b", "c", "d"}));
}

BOOST_AUTO_TEST_SUITE_END()
