#include "lib/queue/queue_log/position_set.h"

#include <boost/test/unit_test.hpp>
#include <set>

#include "lib/base/random.h"

using namespace pen;
using namespace pen::queue_log;

BOOST_AUTO_TEST_SUITE(position_set)

BOOST_AUTO_TEST_CASE(it_holds_what_a_set_holds_through_any_history) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Random random(seed);
      PositionSet flat(random.below(100));
      std::set<Position> wanted;
      // Few different ones, so that places collide and most are met more than once.
      const auto any = [&] {
        return Position{1 + random.below(3), static_cast<std::uint32_t>(random.below(200) * 4096)};
      };
      for (int step = 0; step < 5'000; ++step) {
        const Position at = any();
        if (random.below(2) == 0) {
          flat.insert(at);
          wanted.insert(at);
        } else {
          flat.erase(at);
          wanted.erase(at);
        }
        const Position asked = any();
        BOOST_REQUIRE_EQUAL(flat.contains(asked), wanted.contains(asked));
        BOOST_REQUIRE_EQUAL(flat.size(), wanted.size());
      }
      for (const Position& at : wanted) BOOST_REQUIRE(flat.contains(at));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
