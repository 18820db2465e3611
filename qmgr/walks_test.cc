#include "qmgr/walks.h"

#include <boost/test/unit_test.hpp>

namespace pen::qmgr {
namespace {

using std::chrono::nanoseconds;

struct Walking {
  Walks walks;
  SteadyTime now{seconds(3600)};
  std::uint64_t commits = 0;
  /// A walk that never waits for more than it must, for so long: how much of it works. Each entry takes `each`.
  nanoseconds work(seconds time, microseconds each, bool mail) {
    nanoseconds worked{0};
    for (const SteadyTime end = now + time; now < end;) {
      if (mail) ++commits;
      if (const nanoseconds wait = walks.wait(now, commits); wait > nanoseconds(0)) {
        now += wait;
        continue;
      }
      Walks::Turn turn(now);
      do {
        now += each;
        worked += each;
      } while (!turn.over(now));
      walks.end(turn, now, commits);
    }
    return worked;
  }
};

BOOST_FIXTURE_TEST_SUITE(walks, Walking)

BOOST_AUTO_TEST_CASE(a_turn_ends_after_a_time_or_a_number) {
  Walks::Turn slow(now);
  BOOST_TEST(!slow.over(now + Walks::kTurn - microseconds(1)));
  BOOST_TEST(slow.over(now + Walks::kTurn));
  Walks::Turn quick(now);
  int entries = 1;
  while (!quick.over(now)) ++entries;
  BOOST_TEST(entries == Walks::kEntries);
}

BOOST_AUTO_TEST_CASE(while_mail_flows_walks_have_their_share_together) {
  const auto alone = work(seconds(100), microseconds(100), true);
  BOOST_TEST((alone <= seconds(100) / Walks::kShare + 2 * Walks::kTurn));
  BOOST_TEST((alone >= seconds(4)));
  // Another one finds the time taken.
  Walks::Turn turn(now);
  now += Walks::kTurn;
  walks.end(turn, now, ++commits);
  BOOST_TEST((walks.wait(now, commits) == Walks::kTurn * (Walks::kShare - 1)));
}

BOOST_AUTO_TEST_CASE(on_a_quiet_host_nobody_is_slowed_down) {
  BOOST_TEST((work(seconds(10), microseconds(100), false) >= seconds(10)));
  BOOST_TEST((work(seconds(10), microseconds(100), true) < milliseconds(1500)));
  now += Walks::kCalm + Walks::kTurn * 10 * Walks::kShare;
  BOOST_TEST((work(seconds(10), microseconds(100), false) >= seconds(10)));
}

BOOST_AUTO_TEST_CASE(a_tool_that_reads_slowly_is_not_paid_for_without_end) {
  Walks::Turn turn(now);
  now += seconds(300);
  walks.end(turn, now, ++commits);
  BOOST_TEST((walks.wait(now, commits) <= Walks::kTurn * 10 * Walks::kShare));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::qmgr
