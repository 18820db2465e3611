#include "lib/queue/shaping/learner.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/random.h"

namespace pen::shaping {
namespace {

constexpr WallTime kStart{seconds(1'700'000'000)};

/// A receiver with a quota for each minute that nobody knows, and a sender with more mail than that.
struct HiddenQuota {
  explicit HiddenQuota(std::uint64_t q) : quota(q) {}
  std::uint64_t quota;
  Pace pace;
  Learned l;
  WallTime now = kStart;
  double credit = 0;
  std::uint64_t delivered = 0, refused = 0, allowed = 0;

  void minute(std::uint64_t offered) {
    allowed += quota;
    std::uint64_t sent = offered;
    if (held(l, now)) {
      now += minutes(1);
      return;
    }
    if (const Rate r = limit(l, pace); r.limits()) {
      credit += static_cast<double>(r.thousandths) / 60'000;
      sent = std::min(offered, static_cast<std::uint64_t>(credit));
      credit -= static_cast<double>(sent);
    }
    const std::uint64_t taken = std::min(sent, quota);
    delivered += taken;
    now += minutes(1);
    if (sent > quota) {
      ++refused;
      complain(l, pace, now, {taken, true}, std::nullopt);
    }
    if (now >= l.next_rise) rise(l, pace, now, true);
  }
};
struct Old {
  std::uint64_t rate = 7000, stood = 6000, refused = 9000;
  std::uint32_t patience = 4, complaints = 3;
  PEN_FIELDS(rate, stood, refused, patience, complaints)
};
}  // namespace

BOOST_AUTO_TEST_SUITE(learner)

BOOST_AUTO_TEST_CASE(the_first_complaint_leaves_half_of_what_went_in_the_last_minute) {
  Learned l;
  Pace pace;
  BOOST_TEST(!limit(l, pace).limits());
  complain(l, pace, kStart, {600, true}, std::nullopt);
  BOOST_TEST(to_string(limit(l, pace)) == "5/s");
  BOOST_TEST(held(l, kStart + seconds(299)));
  BOOST_TEST(!held(l, kStart + seconds(300)));
  // Of what was under way:
  complain(l, pace, kStart + seconds(2), {600, true}, std::nullopt);
  BOOST_TEST(to_string(limit(l, pace)) == "5/s");
  BOOST_TEST(!held(l, kStart + seconds(300)));
  complain(l, pace, kStart + seconds(3), {600, true}, seconds(900));
  BOOST_TEST(held(l, kStart + seconds(902)));
  BOOST_TEST(l.complaints == 3U);
}

BOOST_AUTO_TEST_CASE(a_rate_has_a_floor) {
  Learned l;
  Pace pace;
  pace.minimum = Rate::per_minute(2);
  for (int i = 0; i < 5; ++i) complain(l, pace, kStart + seconds(i * 1000), {1, true}, seconds(1));
  BOOST_TEST(to_string(limit(l, pace)) == "2/m");
}

BOOST_AUTO_TEST_CASE(it_rises_by_a_quarter_and_never_more_than_fifteen_times_in_an_hour) {
  Learned l;
  Pace pace;
  complain(l, pace, kStart, {2000, true}, std::nullopt);
  WallTime now = l.next_rise;
  BOOST_TEST(!rise(l, pace, now - seconds(1), true));
  const auto before = limit(l, pace).thousandths;
  BOOST_TEST(rise(l, pace, now, true));
  BOOST_TEST(limit(l, pace).thousandths == before + before / 4);
  std::vector<std::uint64_t> rates;
  for (int i = 0; i < 60; ++i, now += pace.increase) {
    rise(l, pace, now, true);
    rates.push_back(limit(l, pace).thousandths);
    if (i >= 12)
      BOOST_TEST(rates.back() <= static_cast<std::uint64_t>(kMostRise) * rates[static_cast<std::size_t>(i - 12)]);
  }
  BOOST_TEST(rates.back() > 1000 * rates.front());
}

BOOST_AUTO_TEST_CASE(what_a_rate_can_become_ends_at_what_was_refused) {
  Learned l;
  Pace pace;
  l.rate = 1000;
  BOOST_TEST(at_most_after(l, pace, seconds(299)).thousandths == 1000U);
  BOOST_TEST(at_most_after(l, pace, seconds(600)).thousandths == 1562U);
  l.refused = 1400;
  BOOST_TEST(at_most_after(l, pace, seconds(4000)).thousandths == 1400U);
  BOOST_TEST(!at_most_after({}, pace, seconds(4000)).limits());
}

BOOST_AUTO_TEST_CASE(what_nobody_makes_use_of_does_not_rise) {
  Learned l;
  Pace pace;
  complain(l, pace, kStart, {600, true}, std::nullopt);
  BOOST_TEST(!rise(l, pace, l.next_rise, false));
  BOOST_TEST(to_string(limit(l, pace)) == "5/s");
}

BOOST_AUTO_TEST_CASE(it_settles_just_below_what_a_receiver_bears) {
  for (const std::uint64_t quota : {60U, 97U, 600U, 5000U}) {
    HiddenQuota world(quota);
    for (int i = 0; i < 24 * 60; ++i) world.minute(quota * 20);  // a day to settle
    const auto refusals_before = world.refused;
    world.delivered = world.allowed = 0;
    for (int i = 0; i < 24 * 60; ++i) world.minute(quota * 20);
    BOOST_TEST(world.delivered * 100 >= world.allowed * 95,
               quota << ": " << world.delivered << " of " << world.allowed);
    BOOST_TEST_MESSAGE(quota << ": " << world.delivered << " of " << world.allowed << ", refused " << refusals_before
                             << " and then " << world.refused - refusals_before);
    BOOST_TEST(world.refused - refusals_before <= 12U, quota << ": " << world.refused - refusals_before);
    // And follows when more, or less, is borne.
    world.quota = quota * 2;
    for (int i = 0; i < 36 * 60; ++i) world.minute(quota * 20);
    world.delivered = world.allowed = 0;
    for (int i = 0; i < 12 * 60; ++i) world.minute(quota * 20);
    BOOST_TEST(world.delivered * 100 >= world.allowed * 90, quota << " doubled: " << world.delivered);
    world.quota = quota / 2;
    for (int i = 0; i < 24 * 60; ++i) world.minute(quota * 20);
    world.delivered = world.allowed = 0;
    for (int i = 0; i < 12 * 60; ++i) world.minute(quota * 20);
    BOOST_TEST(world.delivered * 100 >= world.allowed * 90, quota << " halved: " << world.delivered);
  }
}

BOOST_AUTO_TEST_CASE(long_rests_cost_little_once_it_has_settled) {
  HiddenQuota world(3000);
  world.pace.pause = minutes(30);
  for (int i = 0; i < 2 * 24 * 60; ++i) world.minute(60'000);
  const auto before = world.refused;
  world.delivered = world.allowed = 0;
  for (int i = 0; i < 4 * 24 * 60; ++i) world.minute(60'000);
  BOOST_TEST(world.delivered * 100 >= world.allowed * 95, world.delivered << " of " << world.allowed);
  BOOST_TEST(world.refused - before <= 6U, world.refused - before);
}

BOOST_AUTO_TEST_CASE(whatever_happens_it_rises_no_more_than_fifteen_times_in_an_hour) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    Pace pace;
    pace.pause = seconds(60);
    Learned l;
    WallTime now = kStart;
    complain(l, pace, now, {100 + random.below(5000), true}, std::nullopt);
    std::vector<std::pair<WallTime, std::uint64_t>> rates;
    const std::uint64_t one_in = 2 + random.below(40);
    for (int i = 0; i < 500; ++i) {
      now = std::max(l.next_rise, l.held_until) + seconds(static_cast<std::int64_t>(random.below(20)));
      if (random.below(one_in) == 0)
        complain(l, pace, now, {random.below(5000), random.below(2) == 0}, std::nullopt);
      else
        rise(l, pace, now, random.below(4) > 0);
      rates.emplace_back(now, l.rate);
      BOOST_TEST(l.rate >= pace.minimum.thousandths);
      for (auto before = rates.rbegin(); before != rates.rend() && now - before->first < pace.increase * 12; ++before)
        if (static_cast<double>(l.rate) > kMostRise * static_cast<double>(before->second))
          BOOST_ERROR("seed " << seed << ": from " << before->second << " to " << l.rate);
    }
  }
}

BOOST_AUTO_TEST_CASE(who_takes_nothing_rests_twice_as_long_each_time) {
  Learned l;
  Pace pace;
  WallTime now = kStart;
  complain(l, pace, now, {600, true}, std::nullopt);
  for (const int rest : {600, 1200, 2400, 4800, 9600, 14400, 14400}) {
    now = l.held_until;
    complain(l, pace, now, {0, false}, std::nullopt);
    BOOST_TEST((l.held_until - now == seconds(rest)), rest);
  }
  // A receiver that says more gets more; one that takes one gets what it says.
  now = l.held_until;
  complain(l, pace, now, {0, false}, std::chrono::hours(12));
  BOOST_TEST((l.held_until - now == std::chrono::hours(12)));
  now = l.held_until;
  complain(l, pace, now, {0, true}, seconds(60));
  BOOST_TEST((l.held_until - now == seconds(60)));
}

BOOST_AUTO_TEST_CASE(complaints_in_vain_say_nothing_of_the_rate) {
  // So many in each ten minutes, and the pause is shorter: what comes too early is refused until they are over.
  Learned l;
  const Pace pace{.pause = seconds(5)};
  complain(l, pace, kStart, {30, true}, std::nullopt);
  BOOST_TEST(to_string(limit(l, pace)) == "15/m");
  for (const char* rate : {"7.5/m", "3.8/m", "1.9/m", "1/m", "1/m"}) {
    complain(l, pace, l.held_until, {0, false}, std::nullopt);
    BOOST_TEST(to_string(limit(l, pace)) == rate);
  }
  BOOST_TEST(!rise(l, pace, l.next_rise, true));  // what was tried and came to nothing proves nothing
  BOOST_TEST(to_string(limit(l, pace)) == "1/m");
  BOOST_TEST(to_string(limit(l, {.minimum = Rate::per_minute(4)})) == "4/m");
  BOOST_TEST(taken(l));
  BOOST_TEST(to_string(limit(l, pace)) == "15/m");
  BOOST_TEST(!taken(l));
  complain(l, pace, l.held_until, {15, true}, std::nullopt);
  BOOST_TEST(to_string(limit(l, pace)) == "7.5/m");
}

BOOST_AUTO_TEST_CASE(what_one_of_an_older_version_kept_is_read) {
  auto l = decode<Learned>(encode(Old{}));
  BOOST_REQUIRE(l.has_value());
  BOOST_TEST(rise(*l, Pace{}, kStart, true));
  BOOST_TEST(l->rate == 8000U);
}

BOOST_AUTO_TEST_CASE(an_order_is_the_least_of_both_and_is_not_outdated) {
  Learned l;
  Pace pace;
  l.ordered = Rate::per_minute(10).thousandths;
  BOOST_TEST(to_string(limit(l, pace)) == "10/m");
  BOOST_TEST(!outdated(l, pace, kStart));
  complain(l, pace, kStart, {10, true}, std::nullopt);
  BOOST_TEST(to_string(limit(l, pace)) == "5/m");
  l.ordered = 0;
  BOOST_TEST(!outdated(l, pace, kStart + pace.forget - seconds(1)));
  BOOST_TEST(outdated(l, pace, kStart + pace.forget));
}

BOOST_AUTO_TEST_CASE(a_hold_changes_no_rate) {
  Learned l;
  const Pace pace;
  hold(l, pace, kStart, seconds(3600));
  BOOST_TEST(held(l, kStart + seconds(3599)));
  BOOST_TEST(!held(l, kStart + seconds(3600)));
  BOOST_TEST(!limit(l, pace).limits());
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace pen::shaping
