#include "lib/receive/intake/characters.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::intake;

BOOST_AUTO_TEST_SUITE(characters)

BOOST_AUTO_TEST_CASE(characters_stand_for_themselves_and_escapes_for_what_they_are_in_c) {
  const auto plain = parse_characters("ab\xff").value();
  BOOST_TEST(plain.count() == 3U);
  BOOST_TEST((plain['a'] && plain['b'] && plain[0xff]));
  const auto escaped = parse_characters("\\0\\33\\377\\n\\\\\\1014").value();
  BOOST_TEST(escaped.count() == 7U);
  BOOST_TEST(
      (escaped[0] && escaped[27] && escaped[255] && escaped['\n'] && escaped['\\'] && escaped['A'] && escaped['4']));
  BOOST_TEST(parse_characters("").value().none());
}

BOOST_AUTO_TEST_CASE(what_is_no_escape_is_an_error) {
  for (const char* bad : {"\\x00", "a\\", "\\8", "\\400"}) {
    const auto got = parse_characters(bad);
    BOOST_REQUIRE(!got.has_value());
    BOOST_TEST(got.error().is(CharactersError::bad_escape));
  }
}

BOOST_AUTO_TEST_SUITE_END()
