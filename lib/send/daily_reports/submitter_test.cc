#include "lib/send/daily_reports/submitter.h"

#include <boost/test/unit_test.hpp>

using namespace pen::daily_reports;

BOOST_AUTO_TEST_SUITE(daily_reports_submitter)

BOOST_AUTO_TEST_CASE(an_address_of_a_mailto_uri_is_plain_and_decoded) {
  BOOST_TEST(address_of_mailto("mailto:a%2Bb@c.example?subject=x").value() == "a+b@c.example");
  BOOST_TEST(address_of_mailto("MAILTO:a@c.example").value() == "a@c.example");
  for (const char* bad : {"mailto:", "mailto:a", "mailto:@c", "mailto:a@", "mailto:a@b@c", "mailto:a%0d%0ab@c",
                          "mailto:a,b@c", "mailto:%zz@c", "https://c.example"})
    BOOST_TEST(!address_of_mailto(bad).has_value(), bad);
}

BOOST_AUTO_TEST_CASE(base_64_is_cut_into_lines) {
  const std::string lines = base64_lines(std::string(100, 'x'));
  BOOST_TEST(lines.find("\r\n") == 76u);
  BOOST_TEST(lines.ends_with("\r\n"));
  BOOST_TEST(base64_lines("").empty());
}

BOOST_AUTO_TEST_SUITE_END()
