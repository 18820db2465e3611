/// Quotas in virtual time: so many messages within a time, which mail that waits uses up and a restart does not forget.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/rate.h"
#include "qmgr/scheduler/shaping_fixture.h"

namespace pen::qmgr {

BOOST_AUTO_TEST_SUITE(scheduler_quotas)

namespace {
/// The most that went within any time of this length.
std::size_t most_within(const std::vector<SteadyTime>& went, seconds time) {
  std::size_t most = 0, first = 0;
  for (std::size_t last = 0; last < went.size(); ++last) {
    while (went[last] - went[first] >= time) ++first;
    most = std::max(most, last - first + 1);
  }
  return most;
}
/// Takes everything, and notes when.
void note_times(Receivers& world, std::vector<SteadyTime>& went) {
  world.limits.destination_concurrency = 20;
  world.answer = [&went](auto&&, auto&&, SteadyTime now) {
    went.push_back(now);
    return std::string();
  };
}
void set_rates(Receivers& world, std::string_view rates) {
  world.shaping.limit = [rates = *parse_rates(rates)](const std::string& name) {
    return name == "provider:big" ? ShapingOptions::Limit{.rates = rates} : ShapingOptions::Limit{};
  };
}
QuotaState quota_of(Receivers& world) {
  QuotaState found;
  world.core().each_limit([&](const LimitState& s) {
    if (!s.quotas.empty()) found = s.quotas.back();
  });
  return found;
}
/// What a restart finds.
using Disk = std::map<std::string, std::string>;
void write(Receivers& world, Disk& disk, bool last) {
  for (const Spent& s : world.core().take_spent(last)) {
    BOOST_TEST(s.key.starts_with(kSpentKey));
    disk.erase(s.key);
    if (s.value) disk[s.key] = *s.value;
  }
}
void restart(Receivers& world, const Disk& disk) {
  world.restart();
  for (const auto& [key, value] : disk) BOOST_TEST(world.core().load_spent(key, value));
}
}  // namespace

BOOST_AUTO_TEST_CASE(two_rates_at_once_hold_and_both_are_used) {
  Receivers world(Mode::no);
  std::vector<SteadyTime> went;
  note_times(world, went);
  set_rates(world, "20/s,300/m");
  world.offer("flood.example", 5000, 1);
  world.run(seconds(14));
  BOOST_TEST(went.size() >= 270U);  // at the quick rate
  world.run(seconds(586));
  BOOST_TEST(most_within(went, seconds(60)) <= 300U);
  BOOST_TEST(most_within(went, seconds(1)) <= 22U);
  BOOST_TEST(went.size() >= 2900U, went.size());
  BOOST_TEST(world.ticks < 20 * went.size(), world.ticks);
}

BOOST_AUTO_TEST_CASE(an_hour_s_quota_is_kept_to_and_used_by_mail_that_was_put_off) {
  Receivers world(Mode::no);
  std::vector<SteadyTime> went;
  note_times(world, went);
  set_rates(world, "20/s,2000/h");
  world.offer("flood.example", 12'000, 1);
  world.run(seconds(120));
  BOOST_TEST(went.size() == 2000U);
  QuotaState seen = quota_of(world);
  BOOST_TEST(seen.used == 2000U);
  BOOST_TEST(seen.most == 2000U);
  // Opens when the first part of it is an hour ago, and mail that waits goes then.
  const auto left = std::chrono::duration_cast<milliseconds>(went.front() + seconds(3600) - world.now());
  BOOST_TEST((seen.opens >= left && seen.opens < left + seconds(3)));
  world.reasons.clear();
  const std::size_t before = went.size();
  world.run(std::chrono::floor<seconds>(seen.opens) - seconds(1));
  BOOST_TEST(went.size() == before);
  BOOST_TEST(world.reasons.back().starts_with("big has had 2000/h, try again in "), world.reasons.back());
  world.offer("calm.example", 1, 2);
  world.run(seconds(30));
  BOOST_TEST(world.delivered["calm.example"] == 1U);
  world.run(std::chrono::hours(5) - seconds(3700));
  BOOST_TEST(most_within(went, seconds(3600)) <= 2000U);
  BOOST_TEST(went.size() >= 9900U, went.size());
  world.run(std::chrono::hours(3));
  BOOST_TEST(went.size() == 12'001U);
  BOOST_TEST(world.ticks < 20 * went.size(), world.ticks);
}

BOOST_AUTO_TEST_CASE(what_a_quota_has_used_outlives_the_scheduler) {
  for (const bool killed : {false, true}) {
    Receivers world(Mode::no);
    std::vector<SteadyTime> went;
    note_times(world, went);
    set_rates(world, "20/s,600/h");
    Disk disk;
    world.offer("a.example", 400, 1);
    for (int i = 0; i < 3; ++i) {
      world.run(seconds(5));
      write(world, disk, false);
    }
    BOOST_TEST(disk.size() == 1U);
    world.run(seconds(4));  // the next would be written in a moment
    if (!killed) {
      world.run(seconds(10));
      write(world, disk, true);
    }
    restart(world, disk);
    world.offer("a.example", 1000, 1);
    world.run(seconds(100));
    // After a kill as many count as could have gone at the rate since the last of them was written.
    BOOST_TEST(went.size() <= 600U, went.size());
    BOOST_TEST(went.size() >= (killed ? 470U : 600U), went.size());
    world.run(std::chrono::hours(4));
    BOOST_TEST(most_within(went, seconds(3600)) <= 600U, killed << ": " << most_within(went, seconds(3600)));
    BOOST_TEST(went.size() >= 1080U, went.size());
    // What says nothing any more is written no more.
    world.run(std::chrono::hours(20));
    write(world, disk, false);
    write(world, disk, false);
    write(world, disk, false);
    BOOST_TEST(disk.empty());
  }
}

BOOST_AUTO_TEST_CASE(what_a_quota_has_used_outlives_a_rest_without_mail) {
  Receivers world(Mode::no);
  std::vector<SteadyTime> went;
  note_times(world, went);
  world.limits.rate_limit = *parse_rates("20/s,50/h");
  Disk disk;
  for (int i = 0; i < 10; ++i) {
    world.offer("a.example", 10, 1, "small.example");
    world.run(seconds(330));  // its hosts are forgotten meanwhile
    write(world, disk, false);
  }
  BOOST_TEST(most_within(went, seconds(3600)) <= 50U);
  BOOST_TEST(went.size() >= 50U);
  restart(world, disk);
  world.offer("a.example", 100, 1, "small.example");
  world.run(std::chrono::hours(5));
  BOOST_TEST(most_within(went, seconds(3600)) <= 50U);
  BOOST_TEST(went.size() == 150U, went.size());
}

BOOST_AUTO_TEST_CASE(an_order_may_have_several_rates_and_outlives_the_scheduler) {
  Receivers world(Mode::yes);
  std::vector<SteadyTime> went;
  note_times(world, went);
  world.offer("a.example", 1, 1);
  world.run(seconds(1));
  BOOST_TEST(world.core().order_rate("big", *parse_rates("20/s,100/m")));
  world.restart();
  world.offer("a.example", 1000, 1);
  world.run(seconds(180));
  BOOST_TEST(most_within(went, seconds(60)) <= 101U);  // the first went before the order
  BOOST_TEST(went.size() >= 290U);
  // With one that is set, the less of each time holds.
  set_rates(world, "10/s,60/m,1000/h");
  world.restart();
  world.offer("a.example", 1000, 1);
  world.run(seconds(30));
  std::vector<std::string> quotas;
  world.core().each_limit([&](const LimitState& s) {
    for (const auto& q : s.quotas) quotas.push_back(to_string(q.quota));
  });
  BOOST_TEST((quotas == std::vector<std::string>{"60/m", "1000/h"}));
  BOOST_TEST(world.core().order_rate("big", {}));
  world.core().each_limit([&](const LimitState& s) { BOOST_TEST(to_string(s.set) == "10/s,60/m,1000/h"); });
}

BOOST_AUTO_TEST_CASE(in_a_cluster_each_host_has_its_part_of_a_quota) {
  for (const std::uint32_t hosts : {2U, 7U}) {
    Receivers world(Mode::no);
    std::vector<SteadyTime> went;
    note_times(world, went);
    world.table.clustered = true;
    world.table.rates.up(hosts);
    set_rates(world, "10/s,6/m");
    world.offer("a.example", 8, 1);
    run_with_server(world, seconds(50));
    BOOST_TEST(went.size() == (hosts == 2 ? 3U : 1U), hosts);  // of seven hosts each has one in two minutes
    // It opens by itself, though no answer of the server wakes it.
    run_with_server(world, seconds(20));
    BOOST_TEST(went.size() == (hosts == 2 ? 6U : 1U), hosts);
    run_with_server(world, seconds(60));
    BOOST_TEST(went.size() == (hosts == 2 ? 8U : 2U), hosts);
    BOOST_TEST(quota_of(world).most == (hosts == 2 ? 3U : 1U));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
