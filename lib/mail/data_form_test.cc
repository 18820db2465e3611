#include "lib/mail/data_form.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/random.h"

using namespace pen;
using namespace pen::mail;

namespace {
/// The same result by the simplest means: byte by byte over the whole content.
std::string reference(std::string_view in, std::size_t limit) {
  std::string out;
  std::size_t at = 0, column = 0;
  bool start = true;
  while (at < in.size()) {
    if (in.substr(at, 2) == "\r\n" || in[at] == '\n') {
      at += in[at] == '\n' ? 1 : 2;
      out += "\r\n";
      start = true;
      column = 0;
      continue;
    }
    if (start && in[at] == '.') out += '.';
    start = false;
    if (limit != 0 && column == limit) {
      out += "\r\n ";
      column = 1;
    }
    out += in[at++];
    ++column;
  }
  if (!start) out += "\r\n";
  return out + ".\r\n";
}
std::string form(std::string_view in, std::size_t limit, Random* cuts) {
  DataForm f(limit);
  std::string out;
  while (!in.empty()) {
    const auto n = cuts == nullptr ? in.size() : 1 + cuts->below(std::min<std::size_t>(in.size(), 7));
    std::vector<Bytes> pieces;
    f.feed(in.substr(0, n), pieces);
    for (const auto p : pieces) out += as_text(p);
    in.remove_prefix(n);
  }
  std::vector<Bytes> pieces;
  f.finish(pieces);
  for (const auto p : pieces) out += as_text(p);
  return out;
}
}  // namespace

BOOST_AUTO_TEST_SUITE(smtp_content)

BOOST_AUTO_TEST_CASE(dots_at_line_starts_are_doubled_and_the_end_is_marked) {
  BOOST_TEST(form(".a\r\nb.\r\n..\r\n", 998, nullptr) == "..a\r\nb.\r\n...\r\n.\r\n");
  BOOST_TEST(form("", 998, nullptr) == ".\r\n");
  BOOST_TEST(form("no end", 998, nullptr) == "no end\r\n.\r\n");
  BOOST_TEST(form(".", 998, nullptr) == "..\r\n.\r\n");
  BOOST_TEST(form("a\r", 998, nullptr) == "a\r\r\n.\r\n");
}
BOOST_AUTO_TEST_CASE(a_bare_newline_cannot_end_the_data_early) {
  BOOST_TEST(form("a\n.\nMAIL FROM:<x>\n", 998, nullptr) == "a\r\n..\r\nMAIL FROM:<x>\r\n.\r\n");
  BOOST_TEST(form("a\n.\r\nb\r\n", 998, nullptr) == "a\r\n..\r\nb\r\n.\r\n");
}
BOOST_AUTO_TEST_CASE(plain_content_leaves_as_one_piece) {
  DataForm f(998);
  std::vector<Bytes> pieces;
  f.feed("a\r\nb\r\nc\r\n", pieces);
  BOOST_TEST(pieces.size() == 1u);
}
BOOST_AUTO_TEST_CASE(over_long_lines_are_continued_after_a_space) {
  BOOST_TEST(form("abcdefgh\r\n", 4, nullptr) == "abcd\r\n efg\r\n h\r\n.\r\n");
  BOOST_TEST(form("abcd\r\n", 4, nullptr) == "abcd\r\n.\r\n");
  BOOST_TEST(form(std::string(5000, 'x'), 0, nullptr) == std::string(5000, 'x') + "\r\n.\r\n");
}
BOOST_AUTO_TEST_CASE(cuts_at_any_byte_change_nothing) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Random random(seed);
      std::string in;
      const auto length = random.below(60);
      while (in.size() < length) in += "\r\n..\r\nab"[random.below(8)];
      const std::size_t limit = random.chance(0.3) ? 0 : 2 + random.below(12);
      const std::string expected = reference(in, limit);
      BOOST_TEST(form(in, limit, nullptr) == expected);
      BOOST_TEST(form(in, limit, &random) == expected);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
