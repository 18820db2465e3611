#include "lib/base/random.h"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstdint>
#include <vector>

using pen::Random;

BOOST_AUTO_TEST_SUITE(random_numbers)

BOOST_AUTO_TEST_CASE(a_seed_means_the_same_everywhere) {
  Random usual(5489);  // the 10,000th value after this seed stands in the C++ standard, of std::mt19937_64
  for (int i = 1; i < 10'000; ++i) usual.next();
  BOOST_TEST(usual.next() == 9981545732273789042u);
  Random one(1);
  BOOST_TEST(one.next() == 0x2245bd5fbb686f68u);
  BOOST_TEST(one.next() == 0x22eb92502318fa4eu);
}

BOOST_AUTO_TEST_CASE(a_draw_is_below_its_bound_and_the_same_everywhere) {
  Random random(7);
  for (const std::uint64_t expected : {754u, 949u, 117u, 891u, 141u, 55u}) BOOST_TEST(random.below(1000) == expected);
  // Half of all draws come once too often for this bound, and are drawn again.
  Random large(7);
  constexpr std::uint64_t kBound = (std::uint64_t{1} << 63) + 1;
  BOOST_TEST(large.below(kBound) == 0x7982b3aa3d1a60b1u);
  BOOST_TEST(large.below(kBound) == 0x722a36026cffbe7bu);
  BOOST_TEST(large.below(kBound) == 0x12152fc3e853ef6eu);
  BOOST_TEST(random.below(0) == 0u);
  BOOST_TEST(random.below(1) == 0u);
}

BOOST_AUTO_TEST_CASE(every_value_is_as_likely_as_the_next) {
  Random random(3);
  std::array<int, 7> times{};
  constexpr int kDraws = 70000;
  for (int i = 0; i < kDraws; ++i) ++times[random.below(times.size())];
  for (const int n : times) BOOST_TEST((n > 9500 && n < 10500));  // five times the standard deviation
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double unit = random.unit();
    BOOST_REQUIRE((unit >= 0 && unit < 1));
    sum += unit;
  }
  BOOST_TEST((sum / kDraws > 0.495 && sum / kDraws < 0.505));
}

BOOST_AUTO_TEST_SUITE_END()
