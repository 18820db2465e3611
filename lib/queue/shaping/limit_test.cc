#include "lib/queue/shaping/limit.h"

#include <boost/test/unit_test.hpp>

namespace pen::shaping {
BOOST_AUTO_TEST_SUITE(limits)

namespace {
std::string shown(std::string_view text) {
  const auto l = parse_limit(text);
  return l ? to_string(l->rates) + " " + std::to_string(l->connections) : l.error();
}
}  // namespace

BOOST_AUTO_TEST_CASE(a_limit_is_a_rate_or_several_connections_or_both) {
  BOOST_TEST(shown("rate=10/m") == "10/m 0");
  BOOST_TEST(shown(" connections=5,rate=2/s ") == "2/s 5");
  BOOST_TEST(shown("rate=20/s,300/m,5000/h connections=5") == "20/s,300/m,5000/h 5");
  BOOST_TEST(shown("connections=5, rate=5000/h, 20/s") == "20/s,5000/h 5");
}

BOOST_AUTO_TEST_CASE(what_is_no_limit_says_why) {
  const std::string no_limit = "is not rate=N/s, N/m, N/h or N/d, or several of these with commas, connections=N";
  for (const char* wrong :
       {"10/m", "rate=1/s rate=2/s", "speed=3", "connections=5 300/m", "connections=1 connections=2"})
    BOOST_TEST(shown(wrong) == no_limit, wrong);
  for (const char* wrong : {"connections=0", "connections=x", "connections=100001"})
    BOOST_TEST(shown(wrong) == "has no number of connections from 1 to 100000", wrong);
  BOOST_TEST(shown("") == "names no limit");
  BOOST_TEST(shown("rate=") == "names no rate");
  BOOST_TEST(shown("rate=10").starts_with("is not a rate: "));
  BOOST_TEST(shown("rate=20/s,20/s") == "has two rates by the second");
  BOOST_TEST(shown("rate=1/s,3600/h connections=3") == "has 3600/h, which holds nothing back beside 1/s");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace pen::shaping
