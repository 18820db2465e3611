#include "tools/log_rotation.h"

#include <boost/test/unit_test.hpp>

namespace pen::tools {

BOOST_AUTO_TEST_SUITE(log_rotation)

BOOST_AUTO_TEST_CASE(the_name_of_the_former_file_is_made_of_the_time) {
  std::tm tm{};
  tm.tm_year = 126;
  tm.tm_mon = 10;
  tm.tm_mday = 26;
  tm.tm_hour = 9;
  tm.tm_isdst = -1;
  const std::time_t then = std::mktime(&tm);
  BOOST_TEST(rotated_name("/var/log/mail", "%Y%m%d-%H%M%S", then) == "/var/log/mail.20261126-090000");
  BOOST_TEST(rotated_name("/var/log/mail", "old", then) == "/var/log/mail.old");
}

BOOST_AUTO_TEST_CASE(a_suffix_that_leads_elsewhere_or_nowhere_is_refused) {
  BOOST_TEST(rotated_name("/var/log/mail", "", 0) == "");
  BOOST_TEST(rotated_name("/var/log/mail", "%D", 0) == "");  // month/day/year
  BOOST_TEST(rotated_name("/var/log/mail", "/../x", 0) == "");
  BOOST_TEST(rotated_name("/var/log/mail", std::string(300, 'x'), 0) == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::tools
