#include "lib/base/tcp_port.h"

#include <boost/test/unit_test.hpp>

namespace pen {
namespace {

BOOST_AUTO_TEST_SUITE(tcp_ports)

BOOST_AUTO_TEST_CASE(several_names_may_have_one_port_and_blanks_may_stand_anywhere_but_in_a_name) {
  const auto known = parse_tcp_ports(" smtp = 25,smtps=Submissions=\n465 ,");
  BOOST_REQUIRE(known.has_value());
  BOOST_TEST(known->size() == 3U);
  BOOST_TEST(*tcp_port("smtp", *known) == 25);
  BOOST_TEST(*tcp_port("smtps", *known) == 465);
  BOOST_TEST(*tcp_port("SUBMISSIONS", *known) == 465);
  BOOST_TEST(parse_tcp_ports("")->empty());
}

BOOST_AUTO_TEST_CASE(what_is_no_name_with_a_port_is_said) {
  for (const char* bad : {"smtp", "smtp=", "=25", "smtp=x", "smtp=0", "smtp=65536", "a b=25", "25=26", "smtp=25 465"}) {
    const auto known = parse_tcp_ports(std::string("lmtp=24, ") + bad);
    BOOST_REQUIRE_MESSAGE(!known.has_value(), bad);
    BOOST_TEST(known.error() == bad);
  }
}

BOOST_AUTO_TEST_CASE(numbers_need_no_name_and_other_names_are_those_of_services) {
  BOOST_TEST(*tcp_port("2525", {}) == 2525);
  for (const char* none : {"0", "65536", "", "no-such-service-of-this-host"})
    BOOST_TEST(!tcp_port(none, {}).has_value(), none);
  // What is known hides what services(5) says.
  BOOST_TEST(*tcp_port("smtp", {{"smtp", 26}}) == 26);
}

BOOST_AUTO_TEST_CASE(a_process_knows_what_it_was_told_last) {
  know_tcp_ports({{"mine", 2001}});
  BOOST_TEST(*tcp_port("mine") == 2001);
  know_tcp_ports({});
  BOOST_TEST(!tcp_port("mine").has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen
