#include "lib/base/random.h"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstdint>
#include <vector>

using pen::Random;

BOOST_AUTO_TEST_SUITE(random_numbers)

/// The values are those of the authors' own code.
BOOST_AUTO_TEST_CASE(a_seed_means_the_same_everywhere) {
  Random zero(0);
  BOOST_TEST(zero.next() == 0x99ec5f36cb75f2b4u);
  BOOST_TEST(zero.next() == 0xbf6e1f784956452au);
  BOOST_TEST(zero.next() == 0x1a5f849d4933e6e0u);
  Random one(1);
  BOOST_TEST(one.next() == 0xb3f2af6d0fc710c5u);
}

BOOST_AUTO_TEST_CASE(a_draw_is_below_its_bound_and_the_same_everywhere) {
  Random random(7);
  for (const std::uint64_t expected : {700u, 278u, 839u, 981u, 990u, 872u}) BOOST_TEST(random.below(1000) == expected);
  // Half of all draws come once too often for this bound, and are drawn again.
  Random large(7);
  constexpr std::uint64_t kBound = (std::uint64_t{1} << 63) + 1;
  BOOST_TEST(large.below(kBound) == 0x59ac7d7ba77cbb2du);
  BOOST_TEST(large.below(kBound) == 0x6b78e9a4ca963ccbu);
  BOOST_TEST(large.below(kBound) == 0x7d949c398f403920u);
  BOOST_TEST(large.below(kBound) == 0x7ed482763f2a018cu);
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
