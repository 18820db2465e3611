/// Messages that wait for hosts of which nothing says that they work hold one share of the active set together.
#include <boost/test/unit_test.hpp>

#include <set>

#include "lib/base/random.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr {
namespace {

struct Probing {
  destdb::MemoryTable table;
  Random random{1};
  SteadyTime now{seconds(1000)};
  Scheduler core;
  std::uint64_t opened = 0;

  Probing() : core(options(), [](std::string_view) { return limits(); }, table, random) { advance(seconds(0)); }
  static Options options() {
    Options o;
    o.share_limit = 5;
    return o;
  }
  static TransportLimits limits() {
    TransportLimits l;
    l.workers = 10;  // five of them for probes
    return l;
  }
  void advance(seconds by) {
    now += by;
    core.set_time(now,
                  WallTime(std::chrono::duration_cast<microseconds>(now.time_since_epoch()) + seconds(1'800'000'000)));
  }
  /// For a host of its own, that does not answer.
  void arrive(MessageNumber number) {
    core.admit(number, {0});
    ipc::route::Resolved answer;
    answer.transport = "smtp";
    answer.nexthop = "d" + std::to_string(number) + ".example";
    answer.recipient = "user@" + answer.nexthop;
    ipc::Destination host;
    host.transport = "smtp";
    host.host = "mx." + answer.nexthop;
    host.address = "192.0.2." + std::to_string(number);
    host.port = 25;
    answer.levels.push_back({{host}});
    core.routed(number, 0, answer);
    for (const Action& a : core.take_actions()) opened += std::holds_alternative<OpenConnection>(a);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(scheduler_probes)

BOOST_FIXTURE_TEST_CASE(what_waits_for_probes_beyond_one_share_is_named_the_last_to_come_first, Probing) {
  for (MessageNumber number = 1; number <= 10; ++number) arrive(number);
  BOOST_TEST(opened == 5U);
  BOOST_TEST(!core.crowded());  // five wait: their share
  for (MessageNumber number = 11; number <= 13; ++number) arrive(number);
  BOOST_TEST(core.crowded());
  BOOST_TEST(!core.excess().has_value());  // they may be through in a moment
  advance(seconds(6));
  for (const MessageNumber last : {13U, 12U, 11U}) {
    BOOST_REQUIRE(core.excess() == last);
    BOOST_TEST(core.withdraw(last) == Ordinals{0});
    core.forget(last);
  }
  BOOST_TEST(!core.excess().has_value());
  BOOST_TEST(!core.crowded());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
