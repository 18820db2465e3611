#include "smtp/told_lately.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::smtp;
using mail::ErrorClass;
using mail::ErrorClasses;

BOOST_AUTO_TEST_SUITE(smtp_told_lately)

BOOST_AUTO_TEST_CASE(a_class_is_told_of_a_host_once_an_hour_or_after_it_worked) {
  ToldLately told;
  const SteadyTime start{seconds(1000)};
  BOOST_TEST((told.tell("a", ErrorClass::protocol, start) == ErrorClass::protocol));
  BOOST_TEST(told.tell("a", ErrorClass::protocol, start + std::chrono::minutes(59)).empty());
  BOOST_TEST((told.tell("b", ErrorClass::protocol, start) == ErrorClass::protocol));
  ErrorClasses both = ErrorClass::protocol;
  both.add(ErrorClass::data);
  BOOST_TEST((told.tell("a", both, start) == ErrorClass::data));
  BOOST_TEST((told.tell("a", both, start + ToldLately::kFor) == both));
  told.forget("a");
  BOOST_TEST((told.tell("a", both, start + ToldLately::kFor) == both));
  BOOST_TEST(told.tell("a", {}, start).empty());
}

BOOST_AUTO_TEST_CASE(it_remembers_no_more_than_its_bound_and_tells_nothing_beyond) {
  ToldLately told;
  const SteadyTime start{seconds(1000)};
  for (std::size_t i = 0; i < ToldLately::kMost; ++i)
    BOOST_TEST(!told.tell(std::to_string(i), ErrorClass::data, start).empty());
  BOOST_TEST(told.tell("one more", ErrorClass::data, start).empty());
  BOOST_TEST(told.tell("0", ErrorClass::data, start).empty());
  BOOST_TEST(!told.tell("one more", ErrorClass::data, start + ToldLately::kFor).empty());
}

BOOST_AUTO_TEST_SUITE_END()
