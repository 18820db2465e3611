/// Tenants above senders: a small world in virtual time, with hosts that take so long for each job.
#include <boost/test/unit_test.hpp>

#include <map>
#include <string>

#include "qmgr/scheduler/steady_hosts.h"

namespace pen::qmgr {
BOOST_AUTO_TEST_SUITE(scheduler_tenants)

namespace {

#ifdef PEN_FEW
constexpr std::size_t kFlood = 50'000;
#else
constexpr std::size_t kFlood = 1'000'000;
#endif

using steady_hosts::World;

std::function<std::string(std::size_t)> to(std::string host) {
  return [host = std::move(host)](std::size_t) { return host; };
}

}  // namespace

/// The provider takes 200 messages in a second. Two tenants want 10 each of that, one wants a million at once.
BOOST_AUTO_TEST_CASE(who_floods_a_host_does_not_delay_those_who_want_less_than_their_share) {
  World w;
  w.flood("flood", kFlood, to("provider.example"));
  w.run_for(seconds(5));
  w.trickle("b", "provider.example", milliseconds(100), 300);
  w.trickle("c", "provider.example", milliseconds(100), 300);
  w.run_for(seconds(40));
  BOOST_TEST(w.finished["b"] == 300U);
  BOOST_TEST(w.finished["c"] == 300U);
  BOOST_TEST(w.slowest["b"].count() < 1000);
  BOOST_TEST(w.slowest["c"].count() < 1000);
  // And nothing of what the host takes is lost.
  BOOST_TEST(w.finished["flood"] > 45 * 200 - 700U);
  w.finish();
  BOOST_TEST(w.finished["flood"] == kFlood);
}

/// The same without tenants: a tenant with many senders has as many turns.
BOOST_AUTO_TEST_CASE(without_tenants_turns_go_by_sender) {
  World w;
  w.options.tenants = false;
  w.flood("flood", 20'000, to("provider.example"));
  w.run_for(seconds(5));
  w.arrive("b", "provider.example", 3);
  w.run_for(seconds(10));
  BOOST_TEST(w.finished["b"] == 0U);
  w.finish();
}

/// All of what one tenant sends goes to hosts that take minutes. It has most of the workers, and never all.
BOOST_AUTO_TEST_CASE(who_is_held_up_leaves_workers_to_others) {
  World w;
  for (int i = 0; i < 500; ++i) w.hosts["tarpit" + std::to_string(i) + ".example"] = milliseconds(120'000);
  w.flood("flood", 20'000, [](std::size_t n) { return "tarpit" + std::to_string(n % 500) + ".example"; });
  w.run_for(seconds(300));
  BOOST_TEST(w.core->figures().connections > 80U);
  BOOST_TEST(w.core->figures().connections < 100U);
  w.trickle("b", "quick.example", milliseconds(1000), 60);
  w.run_for(seconds(61));
  BOOST_TEST(w.finished["b"] == 60U);
  BOOST_TEST(w.slowest["b"].count() < 500);
}

BOOST_AUTO_TEST_CASE(weights_share_what_there_is) {
  World w;
  std::map<std::string, std::uint32_t, std::less<>> weights{{"heavy", 300}, {"light", 100}};
  w.options.tenant_weight = [&](std::string_view tenant) { return weights.find(tenant)->second; };
  w.flood("heavy", 100'000, to("provider.example"));
  w.flood("light", 100'000, to("provider.example"));
  w.run_for(seconds(100));
  const double ratio = static_cast<double>(w.delivered["heavy"]) / static_cast<double>(w.delivered["light"]);
  BOOST_TEST(ratio > 2.7);
  BOOST_TEST(ratio < 3.3);
  // A weight that becomes known later counts from then on.
  w.core->tenant_weight("light", weights["light"] = 900);
  w.core->tenant_weight("unknown", 900);
  w.delivered.clear();
  w.run_for(seconds(100));
  const double turned = static_cast<double>(w.delivered["light"]) / static_cast<double>(w.delivered["heavy"]);
  BOOST_TEST(turned > 2.7);
  BOOST_TEST(turned < 3.3);
  // So does one that the table gives with the next message of a tenant who never leaves.
  weights["heavy"] = 300;
  weights["light"] = 100;
  w.arrive("light", "provider.example");
  w.delivered.clear();
  w.run_for(seconds(100));
  const double back = static_cast<double>(w.delivered["heavy"]) / static_cast<double>(w.delivered["light"]);
  BOOST_TEST(back > 2.7);
  BOOST_TEST(back < 3.3);
}

BOOST_AUTO_TEST_CASE(turns_are_counted_in_recipients) {
  World w;
  w.limits.destination_recipients = 50;
  w.flood("big", 100'000, to("provider.example"), 10);
  w.flood("small", 100'000, to("provider.example"), 1);
  w.run_for(seconds(100));
  const double ratio = static_cast<double>(w.delivered["big"]) / static_cast<double>(w.delivered["small"]);
  BOOST_TEST(ratio > 0.85);
  BOOST_TEST(ratio < 1.15);
}

/// With more hosts than workers it is these that are shared out.
BOOST_AUTO_TEST_CASE(workers_are_shared_by_tenants_and_not_by_how_many_senders_they_have) {
  World w;
  w.limits.workers = 10;
  const auto many = [](std::size_t n) { return "d" + std::to_string(n % 1000) + ".example"; };
  w.flood("a", 100'000, many);
  w.flood("b", 100'000, [&](std::size_t n) { return many(n / 2); });
  w.run_for(seconds(200));
  const double ratio = static_cast<double>(w.delivered["a"]) / static_cast<double>(w.delivered["b"]);
  BOOST_TEST(ratio > 0.8);
  BOOST_TEST(ratio < 1.25);
}

BOOST_AUTO_TEST_CASE(look_ups_go_by_tenants_too) {
  World w;
  w.look_ups_wait = true;
  w.options.routing_workers = 10;
  for (std::uint64_t i = 0; i < 1000; ++i) w.arrive("flood", "x.example", (i << 1U) | 1U);
  w.collect();
  const std::size_t asked = w.look_ups.size();
  BOOST_TEST(asked == 10U);
  const MessageNumber b = w.arrive("b", "x.example", 1);
  w.look_ups_wait = false;
  w.act(w.look_ups.front());
  w.look_ups.pop_front();
  w.look_ups_wait = true;
  w.collect();
  BOOST_TEST(w.look_ups.back().message == b);
}

/// Tenants come and go, mail is taken back, weights change: every tenant that waits is served in the end, and mail
/// without a tenant counts as one.
BOOST_AUTO_TEST_CASE(nobody_waits_for_nothing) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World w;
    w.random = Random(seed);
    Random draw(seed * 7);
    w.limits.workers = static_cast<std::uint32_t>(1 + draw.below(12));
    w.limits.destination_concurrency = static_cast<std::uint32_t>(1 + draw.below(4));
    w.options.fairness = {.max_message_concurrency = static_cast<std::uint32_t>(1 + draw.below(4)),
                          .scale_max_concurrency = static_cast<std::uint32_t>(draw.below(11))};
    w.options.tenant_weight = [&](std::string_view) { return static_cast<std::uint32_t>(1 + draw.below(1000)); };
    for (int i = 0; i < 2000; ++i) {
      const auto tenant = draw.below(12);
      const MessageNumber m =
          w.arrive(tenant == 0 ? "" : "t" + std::to_string(tenant), "h" + std::to_string(draw.below(30)) + ".example",
                   draw.below(3) == 0 ? 0 : (draw.below(5) << 1U) | 1U, static_cast<std::uint32_t>(1 + draw.below(4)));
      if (draw.below(10) == 0) {
        w.take_away(m, w.core->withdraw(m).size());
      }
      if (draw.below(50) == 0)
        w.core->tenant_weight("t" + std::to_string(draw.below(12)), static_cast<std::uint32_t>(1 + draw.below(1000)));
      if (draw.below(4) == 0) w.run_for(milliseconds(static_cast<std::int64_t>(draw.below(400))));
    }
    w.finish();
    BOOST_TEST(w.core->figures().messages == 0U);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
