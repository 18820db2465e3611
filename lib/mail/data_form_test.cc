#include "lib/mail/data_form.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/random.h"

using namespace pen;
using namespace pen::mail;

namespace {
bool blank(char c) { return c == ' ' || c == '\t'; }

/// A header line, folded by trying every place.
std::string folded(std::string line, std::size_t limit) {
  std::string out;
  std::size_t column = 0;
  for (;;) {
    const std::size_t room = limit - column;
    if (line.size() <= room) return out + line;
    std::size_t best = 0;
    bool text = false;
    for (std::size_t i = 0; i <= room && i + 1 < line.size(); ++i) {
      if (text && blank(line[i]) && !blank(line[i + 1])) best = i;
      text = text || !blank(line[i]);
    }
    out += line.substr(0, best > 0 ? best : room) + (best > 0 ? "\r\n" : "\r\n ");
    line.erase(0, best > 0 ? best : room);
    column = best > 0 ? 0 : 1;
  }
}

/// The same result by the simplest means: the header line by line, then byte by byte over the whole content.
std::string reference(std::string_view in, std::size_t limit) {
  std::string out;
  std::size_t at = 0, column = 0;
  bool start = true;
  while (limit != 0 && at < in.size()) {
    const auto lf = in.find('\n', at);
    std::string line(in.substr(at, lf == std::string_view::npos ? lf : lf - at));
    if (lf != std::string_view::npos && line.ends_with('\r')) line.pop_back();
    at = lf == std::string_view::npos ? in.size() : lf + 1;
    out += (line.starts_with('.') ? "." : "") + folded(line, limit) + "\r\n";
    if (line.empty()) break;
  }
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
  BOOST_TEST(form("\r\nab cd ef\r\n", 4, nullptr) == "\r\nab c\r\n d e\r\n f\r\n.\r\n");
  BOOST_TEST(form("abcd\r\n", 4, nullptr) == "abcd\r\n.\r\n");
  BOOST_TEST(form(std::string(5000, 'x'), 0, nullptr) == std::string(5000, 'x') + "\r\n.\r\n");
}
BOOST_AUTO_TEST_CASE(header_lines_are_folded_at_their_blanks) {
  BOOST_TEST(form("To: a@b, c@d, e@f\r\n\r\nto: a@b, c@d\r\n", 9, nullptr) ==
             "To: a@b,\r\n c@d, e@f\r\n\r\nto: a@b, \r\n c@d\r\n.\r\n");
  // As before where there is no blank, and with more of the blanks than one on the line before the break.
  BOOST_TEST(form("X: abcdefghij k\r\n", 6, nullptr) == "X:\r\n abcde\r\n fghij\r\n k\r\n.\r\n");
  BOOST_TEST(form("X: a  \t b\r\n", 7, nullptr) == "X: a  \t\r\n b\r\n.\r\n");
  // Where blanks alone are longer than a line, they are broken like anything else.
  BOOST_TEST(form("X: a        b\r\n", 6, nullptr) == "X:\r\n a    \r\n     b\r\n.\r\n");
  // The header that a notice returns stands in its body.
  BOOST_TEST(form("A: b\r\n\r\n\r\nTo: a@b, c@d\r\n", 9, nullptr) == "A: b\r\n\r\n\r\nTo: a@b, \r\n c@d\r\n.\r\n");
}
BOOST_AUTO_TEST_CASE(what_was_broken_is_counted) {
  DataForm f(8, DataForm::Dots::as_they_are);
  std::vector<Bytes> pieces;
  f.feed("To: a@b, c@d, e@f\r\nX: 1\r\n\r\n.23456789.123456789\r\nshort\r\n", pieces);
  std::string out;
  for (const auto p : pieces) out += as_text(p);
  BOOST_TEST(out == "To: a@b,\r\n c@d,\r\n e@f\r\nX: 1\r\n\r\n.2345678\r\n 9.12345\r\n 6789\r\nshort\r\n");
  BOOST_TEST(f.broken() == 2u);
  BOOST_TEST(f.added_to_header() == 4u);
  BOOST_TEST(f.added() == 10u);
}
BOOST_AUTO_TEST_CASE(a_long_line_of_a_large_header_costs_no_more_than_its_bytes) {
  const std::string line = "X: " + std::string(3'000'000, 'x') + " y\r\n\r\n";
  DataForm f(998);
  std::vector<Bytes> pieces;
  std::size_t size = 0;
  for (std::string_view rest = line; !rest.empty(); rest.remove_prefix(std::min<std::size_t>(rest.size(), 5000))) {
    pieces.clear();
    f.feed(rest.substr(0, 5000), pieces);
    for (const auto p : pieces) size += p.size();
  }
  BOOST_TEST(f.broken() == 1u);
  BOOST_TEST(size == line.size() + f.added());
}
BOOST_AUTO_TEST_CASE(cuts_at_any_byte_change_nothing) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Random random(seed);
      std::string in;
      const auto length = random.below(60);
      while (in.size() < length) in += "\r\n..\r\nab  \t"[random.below(random.chance(0.5) ? 8 : 11)];
      const std::size_t limit = random.chance(0.3) ? 0 : 2 + random.below(12);
      const std::string expected = reference(in, limit);
      BOOST_TEST(form(in, limit, nullptr) == expected);
      BOOST_TEST(form(in, limit, &random) == expected);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
