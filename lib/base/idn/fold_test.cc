#include "lib/base/idn/fold.h"

#include <boost/test/unit_test.hpp>

using namespace pen::idn;

BOOST_AUTO_TEST_SUITE(fold_case)

BOOST_AUTO_TEST_CASE(text_is_folded_by_unicode_where_it_is_utf8) {
  struct Row {
    std::string_view text, folded;
  };
  for (const Row& row : {Row{"", ""}, Row{"A@B.Org", "a@b.org"}, Row{"JÖRG@BÜCHER.example", "jörg@bücher.example"},
                         Row{"ΟΔΥΣΣΕΥΣ", "οδυσσευσ"}, Row{"Straße", "strasse"},
                         Row{"ПОЧТА@Пример.рф", "почта@пример.рф"}, Row{"I", "i"}, Row{"用户", "用户"}})
    BOOST_TEST(fold(row.text) == row.folded);
}
BOOST_AUTO_TEST_CASE(of_bytes_that_are_no_utf8_the_ascii_letters_are_folded) {
  BOOST_TEST(fold("J\xd6RG") == "j\xd6rg");
  BOOST_TEST(fold("\xc3") == "\xc3");
  BOOST_TEST(fold(std::string_view("A\0\xc3\x96", 4)) == std::string_view("a\0\xc3\xb6", 4));
}
BOOST_AUTO_TEST_CASE(texts_are_compared_by_their_folded_form) {
  BOOST_TEST(equal("GRÜN", "grün"));
  BOOST_TEST(equal("A", "a"));
  BOOST_TEST(!equal("grün", "grun"));
  BOOST_TEST(equal("STRASSE", "strasse"));
}

BOOST_AUTO_TEST_SUITE_END()
