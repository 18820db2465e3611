#include "tools/instance.h"

#include <boost/test/unit_test.hpp>

namespace pen::tools {
namespace {

BOOST_AUTO_TEST_SUITE(instance)

BOOST_AUTO_TEST_CASE(a_setting_takes_the_place_of_its_line_or_comment_or_goes_to_the_end) {
  const std::string text = "# about a\n#a = 1\nab = 2\n";
  BOOST_TEST(with_setting(text, "a", "x y") == "# about a\na = x y\nab = 2\n");
  BOOST_TEST(with_setting(text, "ab", "3") == "# about a\n#a = 1\nab = 3\n");
  BOOST_TEST(with_setting(text, "c", "4") == text + "c = 4\n");
}

BOOST_AUTO_TEST_CASE(only_the_smtp_server_gets_the_port) {
  BOOST_TEST(with_smtp_port("# smtp inet\nsmtp  inet n - n - - smtpd\nsmtp unix - - n - - smtp\n", 2525) ==
             "# smtp inet\n2525        inet n - n - - smtpd\nsmtp unix - - n - - smtp\n");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tools
