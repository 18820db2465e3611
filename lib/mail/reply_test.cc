#include "lib/mail/reply.h"

#include <boost/test/unit_test.hpp>

using namespace pen::mail;

BOOST_AUTO_TEST_SUITE(smtp_reply)

namespace {
Reply one(std::initializer_list<std::string_view> lines, bool keep = false) {
  ReplyParser parser;
  parser.keep_lines(keep);
  std::optional<Reply> reply;
  for (const auto line : lines) {
    BOOST_REQUIRE(!reply);
    reply = parser.feed(line);
  }
  BOOST_REQUIRE(reply);
  BOOST_TEST(!parser.partial());
  return *reply;
}
}  // namespace

BOOST_AUTO_TEST_CASE(a_single_line_gives_code_enhanced_code_and_text) {
  const auto r = one({"550 5.1.1 no such user"});
  BOOST_TEST(r.code == 550);
  BOOST_TEST(r.permanent());
  BOOST_TEST(r.dsn == "5.1.1");
  BOOST_TEST(r.text == "550 5.1.1 no such user");
}
BOOST_AUTO_TEST_CASE(lines_of_one_reply_are_joined_and_the_last_code_counts) {
  const auto r = one({"450-4.2.1 first", "550-second", "550 5.2.2 last"});
  BOOST_TEST(r.code == 550);
  BOOST_TEST(r.dsn == "5.2.2");
  BOOST_TEST(r.text == "450-4.2.1 first 550-second 550 5.2.2 last");
}
BOOST_AUTO_TEST_CASE(an_enhanced_code_of_another_class_is_not_believed) {
  BOOST_TEST(one({"550 4.1.1 odd"}).dsn == "");
  BOOST_TEST(one({"550 4.1.1 odd"}).dsn_or_default() == "5.0.0");
}
BOOST_AUTO_TEST_CASE(unknown_codes_are_taken_by_their_first_digit) {
  BOOST_TEST(one({"299 fine"}).positive());
  BOOST_TEST(one({"459 later"}).transient());
  BOOST_TEST(one({"599 never"}).permanent());
  BOOST_TEST(one({"399 go on"}).intermediate());
}
BOOST_AUTO_TEST_CASE(a_bare_code_is_a_reply) {
  BOOST_TEST(one({"250"}).code == 250);
  BOOST_TEST(one({"250-", "250"}).code == 250);
}
BOOST_AUTO_TEST_CASE(lines_that_begin_no_reply_are_malformed) {
  for (const auto* line :
       {"", "hello", "25", "2500 x", "25x ok", " 250 ok", "250_ok", "150 wait", "650 what", "000 x"}) {
    BOOST_TEST_CONTEXT(line) {
      const auto r = one({line});
      BOOST_TEST(r.malformed);
      BOOST_TEST(r.code == 0);
    }
  }
}
BOOST_AUTO_TEST_CASE(text_without_a_code_inside_a_reply_is_text) {
  const auto r = one({"250-first", "loose words", "250 last"});
  BOOST_TEST(r.code == 250);
  BOOST_TEST(!r.malformed);
}
BOOST_AUTO_TEST_CASE(a_hundred_lines_make_one_reply_and_the_next_starts_clean) {
  ReplyParser parser;
  for (int i = 0; i < 100; ++i) BOOST_TEST(!parser.feed("550-line of some length to fill the text up"));
  const auto r = parser.feed("550 5.7.1 end");
  BOOST_REQUIRE(r);
  BOOST_TEST(r->code == 550);
  BOOST_TEST(r->dsn == "5.7.1");
  BOOST_TEST(r->text.size() <= ReplyParser::kMaxText);
  const auto next = parser.feed("250 ok");
  BOOST_REQUIRE(next);
  BOOST_TEST(next->text == "250 ok");
}
BOOST_AUTO_TEST_CASE(a_reply_that_never_ends_becomes_malformed_and_stays_small) {
  ReplyParser parser;
  parser.keep_lines(true);
  std::optional<Reply> r;
  std::size_t lines = 0;
  while (!r) {
    r = parser.feed("250-" + std::string(3000, 'x'));
    ++lines;
  }
  BOOST_TEST(r->malformed);
  BOOST_TEST(lines == ReplyParser::kMaxReplyLines);
  BOOST_TEST(r->text.size() <= ReplyParser::kMaxText);
  BOOST_TEST(r->lines.size() <= ReplyParser::kMaxLines);
}
BOOST_AUTO_TEST_CASE(kept_lines_are_the_texts_after_the_codes) {
  const auto r = one({"250-mx.example.org", "250-SIZE 100", "250 CHUNKING"}, true);
  const std::vector<std::string> expected{"mx.example.org", "SIZE 100", "CHUNKING"};
  BOOST_TEST(r.lines == expected, boost::test_tools::per_element());
}
BOOST_AUTO_TEST_CASE(enhanced_codes_have_three_parts_of_at_most_three_digits) {
  BOOST_TEST((enhanced_code("5.7.26 x") == "5.7.26"));
  BOOST_TEST((enhanced_code("2.0.0") == "2.0.0"));
  for (const auto* text : {"5.7", "5.7.", "5..1 x", "3.1.1 x", "5.1234.1 x", "5.1.1x", "5.1.1234", "x"})
    BOOST_TEST(!enhanced_code(text), text);
}

BOOST_AUTO_TEST_SUITE_END()
