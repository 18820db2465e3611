#include "lib/base/pace.h"

#include <boost/test/unit_test.hpp>

namespace pen {
namespace {

BOOST_AUTO_TEST_SUITE(pace)

BOOST_AUTO_TEST_CASE(pauses_double_from_the_first_to_the_longest) {
  Pace pace({.first = milliseconds(100), .longest = milliseconds(500)});
  BOOST_TEST((pace.next() == milliseconds(100)));
  BOOST_TEST((pace.next() == milliseconds(200)));
  BOOST_TEST((pace.next() == milliseconds(400)));
  for (int i = 0; i < 100; ++i) BOOST_TEST((pace.next() == milliseconds(500)));
}

BOOST_AUTO_TEST_CASE(what_had_settled_is_tried_again_at_once_and_then_as_from_the_beginning) {
  Pace pace({.first = milliseconds(100), .settled = milliseconds(1000)});
  for (int i = 0; i < 4; ++i) pace.next(milliseconds(999));
  BOOST_TEST((pace.next(milliseconds(1000)) == milliseconds(0)));
  BOOST_TEST((pace.next() == milliseconds(100)));
}

BOOST_AUTO_TEST_CASE(the_first_early_ends_may_be_free) {
  Pace pace({.first = seconds(1), .longest = seconds(60), .free = 2});
  BOOST_TEST((pace.next() == milliseconds(0)));
  BOOST_TEST((pace.next() == seconds(1)));
  BOOST_TEST((pace.next() == seconds(2)));
  BOOST_TEST(pace.early_ends() == 3);
  pace.forget();
  BOOST_TEST((pace.next() == milliseconds(0)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen
