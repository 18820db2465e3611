#include "lib/mail/wire.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/random.h"
#include "lib/mail/testing/wire_reference.h"

using namespace pen;
using namespace pen::mail;

namespace {

struct Outcome {
  std::string content, left;
  bool done = false;
  std::uint64_t bare_lf = 0, bare_cr = 0;
};

Outcome read_data(std::string_view in, std::size_t piece = SIZE_MAX, WirePolicy policy = {}) {
  DataScanner scan(policy);
  reference::Sink sink;
  std::size_t at = 0;
  while (at < in.size() && !scan.done()) at += scan.feed(in.substr(at, piece), sink);
  return {sink.content, std::string(in.substr(at)), scan.done(), scan.bare_lf(), scan.bare_cr()};
}

/// A sink that takes lines in one piece, as the content builder does.
struct Lines : reference::Sink {
  FactsCollector facts;
  bool in_lines = true;  // a piece may only come between two lines
  void text(std::string_view part) {
    in_lines = false;
    reference::Sink::text(part);
    facts.text(part);
  }
  void line_end() {
    in_lines = true;
    reference::Sink::line_end();
    facts.line_end();
  }
  bool takes_lines() const { return true; }
  void lines(std::string_view text, const PlainLines& run) {
    BOOST_TEST_REQUIRE(in_lines);
    content += text;
    facts.lines(text, run);
  }
};

std::string read_bdat(std::string_view in, std::size_t piece) {
  BdatScanner scan;
  reference::Sink sink;
  for (std::size_t at = 0; at < in.size(); at += piece) scan.feed(in.substr(at, piece), sink);
  scan.finish(sink);
  return sink.content;
}

BodyFacts facts_of(std::string_view content, std::size_t piece) {
  FactsCollector facts;
  BdatScanner scan;
  for (std::size_t at = 0; at < content.size(); at += piece) scan.feed(content.substr(at, piece), facts);
  scan.finish(facts);
  return std::move(facts).finish();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(wire)

BOOST_AUTO_TEST_CASE(dots_are_unstuffed_and_crlf_dot_crlf_ends_data) {
  auto r = read_data("a\r\n..\r\n...x\r\n.x\r\n\r\n.\r\nMAIL");
  BOOST_TEST(r.done);
  BOOST_TEST(r.content == "a\r\n.\r\n..x\r\nx\r\n\r\n");
  BOOST_TEST(r.left == "MAIL");
  BOOST_TEST(read_data(".\r\nQUIT\r\n").left == "QUIT\r\n");
  BOOST_TEST(read_data(".\r\n").content.empty());
}

BOOST_AUTO_TEST_CASE(no_stray_form_of_the_ending_ends_data) {
  const std::string_view endings[] = {"\n.\n",       "\n.\r\n",     "\r\n.\n",       "\r.\r",       "\r\n.\r",
                                      "\r.\r\n",     "\n.\r",       "\r\r\n.\r\r\n", "\r\n.\r\r\n", "\n\r.\r\n",
                                      "\r\n.\0\r\n", "\r\n\0.\r\n", "\r\n .\r\n",    "\r\n. \r\n"};
  for (const auto ending : endings) {
    const std::string in =
        "text" + std::string(ending) + "MAIL FROM:<evil@x>\r\nRCPT TO:<y@z>\r\nDATA\r\n\r\n.\r\nQUIT\r\n";
    for (std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{7}, SIZE_MAX}) {
      const auto r = read_data(in, piece);
      BOOST_TEST(r.done);
      BOOST_TEST(r.left == "QUIT\r\n");
      BOOST_TEST(r.content.find("MAIL FROM:<evil@x>") != std::string::npos);
      // Once dots are stuffed again, nothing is left that a less careful reader downstream could take for the end of
      // the data.
      for (std::size_t i = 0; i < r.content.size(); ++i) {
        if (r.content[i] == '\r') BOOST_TEST_REQUIRE(r.content[i + 1] == '\n');
        if (r.content[i] == '\n') BOOST_TEST_REQUIRE(r.content[i - 1] == '\r');
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(bare_line_ends_are_counted_and_normalised) {
  auto r = read_data("a\nb\rc\r\r\n.\r\n");
  BOOST_TEST(r.done);
  BOOST_TEST(r.content == "a\r\nb c\r\n");
  BOOST_TEST(r.bare_lf == 1u);
  BOOST_TEST(r.bare_cr == 2u);
  for (std::size_t piece = 1; piece < 6; ++piece) {
    BOOST_TEST(read_data("b\rc\r\r\r\n.\r\n", piece, {.replace_bare_cr = false}).content == "b\rc\r\r\r\n");
    BOOST_TEST(read_data("A: b\r\r\n\r\r\nbody\r\r\r\n.\r\n", piece).content == "A: b\r\n\r\nbody\r\n");
  }
}

BOOST_AUTO_TEST_CASE(a_run_of_crs_is_content_as_it_comes) {
  struct Count {
    std::size_t bytes = 0;
    void text(std::string_view part) { bytes += part.size(); }
    void line_end() { ++bytes; }
  } sink;
  BdatScanner scanner({});
  for (std::size_t piece = 1; piece <= 100; ++piece) {
    scanner.feed(std::string(1000, '\r'), sink);
    BOOST_TEST(sink.bytes == 1000 * piece - kMostCrs);
  }
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, SIZE_MAX})
    for (const std::size_t crs : {kMostCrs, kMostCrs + 5})
      BOOST_TEST(read_data("a" + std::string(crs, '\r') + "\n.\r\n", piece).content ==
                 "a" + std::string(crs - kMostCrs, ' ') + "\r\n");
}

BOOST_AUTO_TEST_CASE(any_split_reads_like_the_slow_reference) {
  const std::uint64_t seed = 20261121;
  BOOST_TEST_MESSAGE("seed " << seed);
  Random random(seed);
  const std::string_view alphabet = "\r\r\r\n\n\n..ab";
  for (int round = 0; round < 20000; ++round) {
    std::string in;
    for (auto n = random.below(24); n > 0; --n) in += alphabet[random.below(alphabet.size())];
    in += "\r\n.\r\nrest\r\n";
    const auto expected = reference::data(in);
    const auto got = read_data(in, 1 + random.below(6));
    BOOST_TEST_REQUIRE(got.done == expected.done);
    BOOST_TEST_REQUIRE(got.content == expected.content);
    BOOST_TEST_REQUIRE(in.size() - got.left.size() == expected.consumed);
    BOOST_TEST_REQUIRE(read_bdat(in, 1 + random.below(6)) == reference::bdat(in));
  }
}

BOOST_AUTO_TEST_CASE(lines_that_come_in_one_piece_are_the_same_with_the_same_facts) {
  const std::uint64_t seed = 20261124;
  BOOST_TEST_MESSAGE("seed " << seed);
  Random random(seed);
  for (int round = 0; round < 5000; ++round) {
    std::string in;
    for (auto n = random.below(12); n > 0; --n) {
      in += std::string(random.below(90), random.below(9) == 0 ? '\xe4' : 'a');
      constexpr std::string_view kEnds[] = {"\r\n", "\r\n", "\r\n", "\n", "\r", "\r\n.", "\n.\r\n"};
      in += kEnds[random.below(std::size(kEnds))];
    }
    in += "\r\n.\r\n";
    DataScanner scan;
    Lines whole;
    const std::size_t step = 1 + random.below(300);
    std::size_t at = 0;
    while (at < in.size() && !scan.done()) at += scan.feed(std::string_view(in).substr(at, step), whole);
    const auto expected = reference::data(in);
    BOOST_TEST_REQUIRE(scan.done());
    BOOST_TEST_REQUIRE(whole.content == expected.content);
    BOOST_TEST_REQUIRE(at == expected.consumed);
    FactsCollector by_line;
    for (std::size_t from = 0; from < expected.content.size();) {
      const auto end = expected.content.find("\r\n", from);
      if (end > from) by_line.text(std::string_view(expected.content).substr(from, end - from));
      by_line.line_end();
      from = end + 2;
    }
    BOOST_TEST_REQUIRE((std::move(whole.facts).finish() == std::move(by_line).finish()));
  }
}

BOOST_AUTO_TEST_CASE(bdat_keeps_dots_and_ends_the_last_line) {
  for (std::size_t piece = 1; piece < 8; ++piece) {
    BOOST_TEST(read_bdat(".\r\n..\r\nx", piece) == ".\r\n..\r\nx\r\n");
    BOOST_TEST(read_bdat("x\r", piece) == "x \r\n");
    BOOST_TEST(read_bdat("", piece).empty());
  }
}

BOOST_AUTO_TEST_CASE(facts_do_not_depend_on_the_split) {
  const std::string content = "Subject: \xc3\xa9\r\n\r\n.dot\r\nplain line\r\n..\r\n" + std::string(70, 'x') + "\r\n";
  for (std::size_t piece = 1; piece < 20; ++piece) {
    const auto f = facts_of(content, piece);
    BOOST_TEST(f.size == content.size());
    BOOST_TEST(f.longest_line == 70u);
    BOOST_TEST(f.eight_bit_header);
    BOOST_TEST(!f.eight_bit_body);
    BOOST_TEST(!f.nul);
  }
  BOOST_TEST(facts_of(std::string_view("a\0b\r\n", 5), 2).nul);
}

BOOST_AUTO_TEST_SUITE_END()
