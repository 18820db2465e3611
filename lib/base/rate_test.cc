#include "lib/base/rate.h"

#include <boost/test/unit_test.hpp>

namespace pen {
BOOST_AUTO_TEST_SUITE(rates)

namespace {
std::string again(std::string_view text) {
  const auto rate = parse_rate(text);
  return rate ? to_string(*rate) : "not a rate";
}
std::string several(std::string_view text) {
  const auto rates = parse_rates(text);
  return rates ? to_string(*rates) : rates.error();
}
}  // namespace

BOOST_AUTO_TEST_CASE(a_rate_is_a_count_in_a_second_a_minute_an_hour_or_a_day) {
  BOOST_TEST(again("10/s") == "10/s");
  BOOST_TEST(again("1/m") == "1/m");
  BOOST_TEST(again("59/h") == "59/h");
  BOOST_TEST(again("90/m") == "1.5/s");
  BOOST_TEST(again("3600/h") == "1/s");
  BOOST_TEST(again("1000000/s") == "1000000/s");
  BOOST_TEST(again("48/d") == "2/h");
  BOOST_TEST(again("1/d") == "1/d");
  for (const char* wrong : {"", "/", "10", "10/", "/m", "0/m", "-1/m", "1.5/m", "10/w", "10/mm", "10 /m", "1000001/s",
                            "99999999999999999999/s"})
    BOOST_TEST(again(wrong) == "not a rate", wrong);
}

BOOST_AUTO_TEST_CASE(a_rate_says_what_it_comes_to_in_a_time) {
  BOOST_TEST(Rate::per_minute(90).in(seconds(60)) == 90U);
  BOOST_TEST(Rate::per_hour(7).in(seconds(3600)) == 7U);
  BOOST_TEST(Rate{Rate::kMost}.in(seconds(86400)) == 86'400'000'000U);
  BOOST_TEST(Rate::per_hour(1).interval().count() == std::chrono::nanoseconds(seconds(3600)).count());
  BOOST_TEST(Rate{Rate::kMost}.interval().count() == 1000);
  BOOST_TEST(parse_rate("1000000/d")->in(seconds(86400)) <= 1'000'000U);
}

BOOST_AUTO_TEST_CASE(of_several_rates_the_quickest_is_one_and_the_others_are_quotas) {
  const auto rates = parse_rates("5000/h, 20/s,300/m 50000/d");
  BOOST_REQUIRE(rates.has_value());
  BOOST_TEST((rates->rate == Rate::per_second(20)));
  BOOST_TEST(
      (rates->quotas == std::vector<Quota>{{300, seconds(60)}, {5000, seconds(3600)}, {50'000, seconds(86'400)}}));
  BOOST_TEST(to_string(*rates) == "20/s,300/m,5000/h,50000/d");
  BOOST_TEST(several("10/m") == "10/m");
  BOOST_TEST(several("90/m,200/h") == "90/m,200/h");
  BOOST_TEST(to_string(Rates(Rate{1234567})) == to_string(Rate{1234567}));
  BOOST_TEST(several("100/h,200/d") == "100/h,200/d");
}

BOOST_AUTO_TEST_CASE(several_rates_that_make_no_sense_say_why) {
  for (const char* wrong : {"often", "20/s,5000/w", "20/s,0/h", "20/s;5000/h", "20/s,5000000/h"})
    BOOST_TEST(several(wrong).starts_with("is not a rate: "), wrong);
  BOOST_TEST(several("") == "names no rate");
  BOOST_TEST(several(", ") == "names no rate");
  BOOST_TEST(several("20/s,300/m,400/m") == "has two rates by the minute");
  BOOST_TEST(several("1/d,1/d") == "has two rates by the day");
  BOOST_TEST(several("1/s,2/s,3/m,4/m,5/h,6/d") == "has two rates by the second");
  BOOST_TEST(several("1/s,100/m") == "has 100/m, which holds nothing back beside 1/s");
  BOOST_TEST(several("1/s,60/m") == "has 60/m, which holds nothing back beside 1/s");
  BOOST_TEST(several("1/s,59/m") == "1/s,59/m");
  BOOST_TEST(several("20/s,120000/d,5000/h") == "has 120000/d, which holds nothing back beside 5000/h");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace pen
