/// The gates of a cluster's hosts in virtual time: each has its part, and hears what the others learned.
#include <boost/test/unit_test.hpp>

#include <set>
#include <string>

#include "qmgr/scheduler/shaping_fixture.h"

namespace pen::qmgr {

BOOST_AUTO_TEST_SUITE(scheduler_gates_of_a_cluster)

BOOST_AUTO_TEST_CASE(without_its_server_a_host_of_a_cluster_goes_by_its_part) {
  Receivers world(Mode::no);
  world.table.clustered = true;
  world.table.rates.set_hosts(2);
  world.shaping.limit = [](const std::string& name) {
    return name == "provider:big" ? ShapingOptions::Limit{.rates = shaping::Rate::per_second(10)}
                                  : ShapingOptions::Limit{};
  };
  world.offer("a.example", 200, 1);
  world.run(seconds(20));
  BOOST_TEST(world.delivered["a.example"] >= 95U);
  BOOST_TEST(world.delivered["a.example"] <= 102U);
}

BOOST_AUTO_TEST_CASE(in_a_cluster_mail_goes_on_when_a_rest_is_over) {
  Receivers world(Mode::yes);
  world.limits.destination_concurrency = 1;
  world.table.clustered = true;
  world.table.rates.up(2);
  bool complains = true;
  world.answer = [&](auto&&...) { return std::exchange(complains, false) ? kTooMuch : ""; };
  world.shaping.pace.pause = seconds(60);
  world.offer("a.example", 3, 1);
  // Before the one that was put off comes back, and brings the gate to somebody's mind.
  run_with_server(world, seconds(200));
  BOOST_TEST(world.delivered["a.example"] == 2U);
  run_with_server(world, seconds(400));
  BOOST_TEST(world.delivered["a.example"] == 3U);
}

BOOST_AUTO_TEST_CASE(connections_that_are_set_are_those_of_all_hosts_together) {
  for (const std::string name : {"domain:m.example", "tenant:a.example", "provider:big"}) {
    Receivers world(Mode::no);
    world.options.tenants = true;
    world.table.clustered = true;
    world.table.rates.set_hosts(2);
    world.shaping.limit = [name](const std::string& asked) {
      return asked == name ? ShapingOptions::Limit{.rates = {}, .connections = 4} : ShapingOptions::Limit{};
    };
    world.offer("a.example", 1000, 1);
    world.run(seconds(10));
    const auto n = world.delivered["a.example"];  // ten a second by each of two
    BOOST_TEST(n >= 180U, name << ": " << n);
    BOOST_TEST(n <= 205U, name << ": " << n);
  }
}

BOOST_AUTO_TEST_CASE(what_another_host_learned_counts_whatever_its_clock_says) {
  Receivers world(Mode::yes);
  world.table.clustered = true;
  world.table.rates.up(2);
  world.offer("a.example", 1, 1);
  world.run(seconds(1));
  // Nothing limits it here: it asks what others know of the provider, and of the sender there.
  std::set<std::string> asked;
  for (const auto& request : world.table.rates.take_requests())
    if (const auto* ask = std::get_if<shaping::SharedRates::Ask>(&request)) asked.insert(ask->key);
  BOOST_TEST(asked.contains("big|||"));
  BOOST_TEST(asked.contains("big||a.example|"));
  // The other's clock is an hour ahead, and it said this two seconds ago.
  const WallTime then = world.wall() + std::chrono::hours(1) - seconds(2);
  shaping::Learned learned;
  learned.rate = shaping::Rate::per_minute(7).thousandths;
  learned.complaints = 1;
  learned.complained = learned.used = then;
  learned.held_until = then + seconds(600);
  learned.next_rise = learned.held_until + seconds(300);
  world.core().rate_heard("big|||", encode(learned), seconds(2));
  BOOST_TEST(world.limit_of("big") == "7/m");
  BOOST_TEST(world.rests("big").count() == 598);
  // Forgotten there, forgotten here.
  world.core().rate_heard("big|||", encode(shaping::Learned{}), seconds(0));
  BOOST_TEST(world.limit_of("big") == "none");
}

BOOST_AUTO_TEST_CASE(who_has_not_heard_of_a_complaint_does_not_undo_it) {
  Receivers world(Mode::yes);
  world.table.clustered = true;
  world.table.rates.up(2);
  world.answer = [](auto&&...) { return kTooMuchOfDomain; };
  world.offer("a.example", 1, 1);
  world.run(seconds(10));
  const std::string limit = world.limit_of("big", "d=a.example");
  BOOST_TEST(limit == "1/m");
  for (const auto& request : world.table.rates.take_requests())
    if (const auto* tell = std::get_if<shaping::SharedRates::Tell>(&request)) world.table.rates.told(tell->id, 1, true);
  shaping::Learned risen;
  risen.rate = shaping::Rate::per_minute(70).thousandths;
  risen.complaints = 3;
  risen.complained = world.wall() - seconds(5000);
  risen.used = world.wall();
  world.core().rate_heard("big||d=a.example|", encode(risen), seconds(0));
  BOOST_TEST(world.limit_of("big", "d=a.example") == limit);
  bool told = false;
  for (const auto& request : world.table.rates.take_requests())
    if (const auto* tell = std::get_if<shaping::SharedRates::Tell>(&request)) told |= tell->key == "big||d=a.example|";
  BOOST_TEST(told);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
