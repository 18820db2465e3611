#include "lib/queue/queue_log/recent_ids.h"

#include "lib/queue/queue_log/known_ids.h"

#include <boost/test/unit_test.hpp>
#include <string>

using namespace pen::queue_log;

BOOST_AUTO_TEST_SUITE(recent_ids)

BOOST_AUTO_TEST_CASE(the_last_ids_are_known_and_old_ones_are_forgotten) {
  constexpr std::uint64_t kLeast = 1000, kAll = 10'000;
  RecentIds ids(2 * kLeast, 7);
  BOOST_TEST(ids.find("m0") == nullptr);
  for (std::uint64_t i = 0; i < kAll; ++i) {
    ids.add("m" + std::to_string(i), {i + 1, {i, 24}});
    // each of the last ones, and none that was never added
    for (const std::uint64_t back : {std::uint64_t{0}, i / 2, kLeast - 1}) {
      if (back >= kLeast || back > i) continue;
      const auto* known = ids.find("m" + std::to_string(i - back));
      BOOST_REQUIRE(known != nullptr);
      BOOST_REQUIRE_EQUAL(known->ticket, i - back + 1);
      BOOST_REQUIRE_EQUAL(known->position.use, i - back);
    }
    BOOST_REQUIRE(ids.find("n" + std::to_string(i)) == nullptr);
  }
  BOOST_TEST(ids.find("m0") == nullptr);
  BOOST_TEST(ids.find("m" + std::to_string(kAll - 2 * kLeast - 1)) == nullptr);
}

BOOST_AUTO_TEST_CASE(an_id_that_is_known_keeps_what_it_was_added_with) {
  RecentIds ids(20, 7);
  ids.add("m", {1, {1, 24}});
  for (int i = 0; i < 10; ++i) ids.add("other" + std::to_string(i), {2, {2, 24}});
  ids.add("m", {3, {3, 24}});  // in the older table by now
  BOOST_REQUIRE(ids.find("m") != nullptr);
  BOOST_TEST(ids.find("m")->ticket == 1U);
}

BOOST_AUTO_TEST_CASE(an_arrival_that_was_not_known_is_filled_in) {
  RecentIds ids(20, 7);
  const pen::WallTime arrived(pen::seconds(1'800'000'000));
  ids.add("m", {1, {1, 24}});
  ids.add("m", {3, {3, 24}, arrived});
  ids.add("m", {4, {4, 24}, arrived + pen::seconds(1)});
  BOOST_REQUIRE(ids.find("m") != nullptr);
  BOOST_TEST((ids.find("m")->arrived == arrived));
  BOOST_TEST(ids.find("m")->ticket == 1U);
}

BOOST_AUTO_TEST_CASE(every_id_that_was_taken_since_then_is_known) {
  const auto at = [](std::uint64_t second) { return pen::WallTime(pen::seconds(1'800'000'000 + second)); };
  constexpr std::uint64_t kHalf = 10;
  for (const std::uint64_t asked_each : {1U, 7U, 45U}) {
    KnownIds ids(2 * kHalf, 7, at(0));
    for (std::uint64_t i = 0; i < 500; ++i) {
      ids.accepted.add("m" + std::to_string(i), {i + 1, {i, 24}});
      if (i % asked_each != 0) continue;
      const pen::WallTime since = ids.known_since(at(i));
      BOOST_TEST((ids.known_since(at(0)) == since));  // a clock that is set back changes nothing
      for (std::uint64_t j = 0; j <= i; ++j)
        BOOST_TEST((at(j) < since || ids.accepted.find("m" + std::to_string(j)) != nullptr));
      if (i < kHalf) BOOST_TEST((since == at(0)));
      if (asked_each == 1) BOOST_TEST((since >= at(i) - pen::seconds(2 * kHalf)));  // as much as is known
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
