#include "lib/base/text.h"

#include <boost/test/unit_test.hpp>

using namespace pen;

BOOST_AUTO_TEST_SUITE(text)

BOOST_AUTO_TEST_CASE(split_leaves_out_empty_parts) {
  const auto parts = split(" a, b,,c\t");
  BOOST_TEST(parts.size() == 3u);
  BOOST_TEST(parts[2] == "c");
  BOOST_TEST(split(" , ").empty());
}

BOOST_AUTO_TEST_CASE(join_puts_the_separator_between_words_only) {
  BOOST_TEST(join({"a", "", "b"}, ", ") == "a, , b");
  BOOST_TEST(join({"a"}) == "a");
  BOOST_TEST(join({}) == "");
}

BOOST_AUTO_TEST_CASE(lists_split_at_blanks_and_commas_but_not_inside_braces) {
  BOOST_TEST(join(split_list("a, b c\t,d { e, f } inline:{ x=y, {z = w} },g"), "|") ==
             "a|b|c|d|{ e, f }|inline:{ x=y, {z = w} }|g");
  BOOST_TEST(split_list(" , ").empty());
  BOOST_TEST(join(split_list("{ open, b"), "|") == "{ open, b");
  BOOST_TEST(list_contains("a, B { c, d }", "b"));
  BOOST_TEST(!list_contains("a, B { c, d }", "c"));
  BOOST_TEST(!list_contains("ab", "a"));
  BOOST_TEST(!list_contains("", ""));
}

BOOST_AUTO_TEST_CASE(parse_unsigned_takes_digits_only) {
  BOOST_TEST(parse_unsigned("0").value() == 0u);
  BOOST_TEST(parse_unsigned("18446744073709551615").has_value());
  BOOST_TEST(!parse_unsigned("18446744073709551616").has_value());
  BOOST_TEST(!parse_unsigned("-1").has_value());
  BOOST_TEST(!parse_unsigned("").has_value());
  BOOST_TEST(!parse_unsigned("1 ").has_value());
}

BOOST_AUTO_TEST_CASE(printable_masks_control_bytes_and_cuts) {
  BOOST_TEST(printable("a\r\nb\x80") == "a??b?");
  BOOST_TEST(printable("abcdef", 3) == "abc...");
}

BOOST_AUTO_TEST_CASE(case_helpers_touch_ascii_only) {
  BOOST_TEST(to_lower("ÄBC") == "Äbc");
  BOOST_TEST(iequals("PostMaster", "postmaster"));
  BOOST_TEST(istarts_with("MAIL FROM:", "mail from"));
}

BOOST_AUTO_TEST_CASE(what_people_read_keeps_its_characters_and_nothing_that_moves_text) {
  struct Row {
    std::string_view text, shown;
  };
  for (const auto& row : {Row{"jos\xc3\xa9@b\xc3\xbc"
                              "cher.example",
                              "jos\xc3\xa9@b\xc3\xbc"
                              "cher.example"},
                          Row{"\xe6\x97\xa5\xf0\x9f\x93\xa7", "\xe6\x97\xa5\xf0\x9f\x93\xa7"},
                          Row{"a\r\n\x1b[2J\x7f", "a???[2J?"}, Row{"caf\xe9", "caf?"},  // Latin-1
                          Row{"\xc0\xaf\xed\xa0\x80", "?????"},  // an over-long form, a surrogate
                          Row{"\xc3", "?"},                      // cut short
                          Row{"\xc2\x9b"
                              "31m",
                              "?31m"},  // a control sequence of one character
                          Row{"\xe2\x80\xae"
                              "gpj.exe",
                              "?gpj.exe"},  // turned round
                          Row{"\xe2\x80\xa8\xe2\x81\xa6\xd8\x9c", "???"}})
    BOOST_TEST(readable(row.text) == row.shown, row.shown);
  BOOST_TEST(readable("\xc3\xa9\xc3\xa9", 3) == "\xc3\xa9...");
  for (const char odd : {'\x1f', '\x7f', '\x80', '\0'}) {
    for (std::size_t i = 0; i < 20; ++i) {
      std::string text(20, 'x'), shown = text;
      text[i] = odd;
      shown[i] = '?';
      BOOST_TEST(readable(text) == shown);
    }
  }
  BOOST_TEST(readable(std::string(20, '~'), 10) == std::string(10, '~') + "...");
  BOOST_TEST(readable(std::string(10, ' '), 10) == std::string(10, ' '));
  BOOST_TEST(printable("\xc3\xa9") == "??");
}

BOOST_AUTO_TEST_SUITE_END()
