#include "penapi/history.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::api;

namespace {
WallTime at(std::int64_t s) { return WallTime(std::chrono::days(20000)) + seconds(s); }
Reading reading(std::uint64_t accepted, std::uint64_t waiting = 0) {
  Reading out;
  out.accepted = accepted;
  out.waiting = waiting;
  return out;
}
}  // namespace

BOOST_AUTO_TEST_SUITE(penapi_history)

BOOST_AUTO_TEST_CASE(a_point_has_what_happened_since_the_one_before) {
  History h;
  BOOST_TEST(h.add(reading(1000), at(0)) == 0u);
  BOOST_TEST(h.add(reading(1030), at(10)) == 1u);
  BOOST_TEST(h.add(reading(1031), at(20)) == 1u);
  const auto& points = h.points(Range::hour);
  BOOST_REQUIRE(points.size() == 2u);
  BOOST_TEST(points[0].accepted == 30u);
  BOOST_TEST(points[1].accepted == 1u);
  BOOST_TEST(points[1].seconds == 10u);
  BOOST_TEST((points[1].end == at(20)));
  BOOST_TEST(h.points(Range::day).empty());
}

BOOST_AUTO_TEST_CASE(counters_that_begin_anew_lose_nothing_and_invent_nothing) {
  History h;
  h.add(reading(1000), at(0));
  h.add(reading(7), at(10));
  BOOST_TEST(h.points(Range::hour).back().accepted == 7u);
}

BOOST_AUTO_TEST_CASE(longer_ranges_sum_counts_and_average_states) {
  History h;
  for (int i = 0; i <= 60; ++i) h.add(reading(static_cast<std::uint64_t>(i) * 5, i % 2 == 0 ? 100 : 200), at(i * 10));
  BOOST_REQUIRE(h.points(Range::day).size() == 2u);
  BOOST_TEST(h.points(Range::day)[0].accepted == 150u);
  BOOST_TEST(h.points(Range::day)[0].waiting >= 145u);
  BOOST_TEST(h.points(Range::day)[0].waiting <= 155u);
}

BOOST_AUTO_TEST_CASE(the_number_of_points_is_bounded_and_they_are_restored) {
  History h;
  for (int i = 0; i < 1000; ++i) h.add(reading(static_cast<std::uint64_t>(i)), at(i * 10));
  BOOST_TEST(h.points(Range::hour).size() == kRanges[0].points);
  History other;
  BOOST_TEST(other.restore(Range::hour, h.stored(Range::hour)));
  BOOST_TEST(other.points(Range::hour).size() == kRanges[0].points);
  BOOST_TEST((other.points(Range::hour).back().end == h.points(Range::hour).back().end));
  BOOST_TEST(!other.restore(Range::day, "nonsense"));
  BOOST_TEST(other.points(Range::day).empty());
}

BOOST_AUTO_TEST_CASE(points_with_a_bit_that_has_changed_are_not_taken) {
  History h;
  for (int i = 0; i < 5; ++i) h.add(reading(static_cast<std::uint64_t>(i)), at(i * 10));
  const std::string good = h.stored(Range::hour);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    History other;
    BOOST_TEST(!other.restore(Range::hour, bad));
    BOOST_TEST(other.points(Range::hour).empty());
  }
}

BOOST_AUTO_TEST_CASE(a_clock_that_is_set_back_begins_anew) {
  History h;
  for (int i = 0; i < 5; ++i) h.add(reading(1), at(i * 10));
  h.add(reading(2), at(-1000));
  BOOST_TEST(h.points(Range::hour).empty());
  h.add(reading(5), at(-990));
  BOOST_REQUIRE(h.points(Range::hour).size() == 1u);
  BOOST_TEST(h.points(Range::hour)[0].accepted == 3u);
}

BOOST_AUTO_TEST_SUITE_END()
