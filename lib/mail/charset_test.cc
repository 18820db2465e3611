#include "lib/mail/charset.h"

#include <boost/test/unit_test.hpp>

using namespace pen::mail;

BOOST_AUTO_TEST_SUITE(charset)

BOOST_AUTO_TEST_CASE(one_high_byte_anywhere_is_not_ascii) {
  BOOST_TEST(all_ascii(""));
  BOOST_TEST(all_ascii("a~\x7f"));
  BOOST_TEST(!all_ascii("\x80 begins"));
  BOOST_TEST(!all_ascii("ends \xc3\xa9"));
}

BOOST_AUTO_TEST_CASE(utf8_is_told_from_other_bytes) {
  for (auto good : {"", "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"})
    BOOST_TEST(valid_utf8(good));
  for (auto bad :
       {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82"})
    BOOST_TEST(!valid_utf8(bad));
}

BOOST_AUTO_TEST_CASE(utf8_is_written_in_ascii_by_code_points) {
  BOOST_TEST(escape_utf8("a+b@c") == "a+b@c");
  BOOST_TEST(escape_utf8("x\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z") == "x\\x{E9}\\x{20AC}\\x{1F600}z");
}

BOOST_AUTO_TEST_SUITE_END()
