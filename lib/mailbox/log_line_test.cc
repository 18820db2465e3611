#include "lib/mailbox/log_line.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::mailbox;

BOOST_AUTO_TEST_SUITE(mailbox_log_line)

BOOST_AUTO_TEST_CASE(delays_have_two_significant_digits) {
  BOOST_TEST(delay_text(microseconds(0)) == "0");
  BOOST_TEST(delay_text(microseconds(-5)) == "0");
  BOOST_TEST(delay_text(milliseconds(4)) == "0");
  BOOST_TEST(delay_text(milliseconds(50)) == "0.05");
  BOOST_TEST(delay_text(milliseconds(1234)) == "1.2");
  BOOST_TEST(delay_text(seconds(34)) == "34");
  BOOST_TEST(delay_text(seconds(123456)) == "123456");
}

BOOST_AUTO_TEST_CASE(a_line_has_the_fields_in_postfix_order) {
  mail::Recipient r;
  r.address = "bob@example.org";
  r.original = "sales@example.org";
  const WallTime t(seconds(100));
  const Times times{t, t + milliseconds(50), t + milliseconds(50), t + milliseconds(80)};
  BOOST_TEST(log_line("4ABC", r, "local", times,
                      {mail::Action::delivered, "2.0.0", "delivered to maildir", "", ""}) ==
             "4ABC: to=<bob@example.org>, orig_to=<sales@example.org>, relay=local, delay=0.08, "
             "delays=0.05/0/0/0.03, dsn=2.0.0, status=sent (delivered to maildir)");
}

BOOST_AUTO_TEST_SUITE_END()
