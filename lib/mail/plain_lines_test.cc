#include "lib/mail/plain_lines.h"

#include <boost/test/unit_test.hpp>
#include <string>

#include "lib/base/random.h"
#include "lib/mail/testing/wire_reference.h"

using namespace pen;
using namespace pen::mail;

namespace {

void every_way_finds(std::string_view text, std::size_t max_line) {
  const PlainLines expected = reference::plain_lines(text, max_line);
  BOOST_TEST_REQUIRE((plain_lines(text, max_line) == expected));
  for (const auto code : {BlockCode::plain, BlockCode::sse2, BlockCode::avx2, BlockCode::avx512}) {
    PlainLines found;
    if (plain_lines_by(code, text, max_line, found)) BOOST_TEST_REQUIRE((found == expected));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(plain_lines_suite)

BOOST_AUTO_TEST_CASE(a_run_ends_before_whatever_is_not_plain) {
  const std::string good = "Hello,\r\n\r\nthis is text\r\n";
  for (const std::string_view odd : {"", "no end\r", "bare\nlf\r\n", "bare\rcr\r\n", ".\r\n", "..x\r\n", "\n", "\r\r\n",
                                     "this line is longer than thirty bytes\r\n"}) {
    const auto run = plain_lines(good + std::string(odd) + good, 30);
    BOOST_TEST(run.size == (odd.empty() ? 2 * good.size() : good.size()));
    BOOST_TEST(run.longest == 12u);
  }
  BOOST_TEST(plain_lines(good + "no end").size == good.size());
  BOOST_TEST(plain_lines("").size == 0u);
  BOOST_TEST(plain_lines("\r\n").size == 2u);
}

BOOST_AUTO_TEST_CASE(what_is_behind_the_run_says_nothing_of_it) {
  const std::string line(70, 'x');
  for (const std::string_view behind : {"\xc3\xa9 no end", ".\xc3\r\n", "a\xc3\nb\r\n"}) {
    const auto run = plain_lines(line + "\r\n" + std::string(behind));
    BOOST_TEST(run.size == 72u);
    BOOST_TEST(!run.eight_bit);
  }
  BOOST_TEST(plain_lines(line + "\xc3\r\n.\r\n").eight_bit);
  BOOST_TEST(plain_lines(line + std::string(1, '\0') + "\r\n.\r\n").nul);
  BOOST_TEST(!plain_lines(line + "\r\n" + std::string(1, '\0')).nul);
}

BOOST_AUTO_TEST_CASE(every_kind_of_processor_finds_what_the_slow_reference_finds) {
  const std::uint64_t seed = 20261123;
  BOOST_TEST_MESSAGE("seed " << seed);
  Random random(seed);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (auto n = random.below(8); n > 0; --n) {
      text += std::string(random.below(3) == 0 ? random.below(200) : random.below(5), 'a');
      switch (random.below(12)) {
        case 0:
          text += "\n";
          break;
        case 1:
          text += "\r";
          break;
        case 2:
          text += "\r\n.";
          break;
        case 3:
          text += '\0';
          break;
        case 4:
          text += "\xff";
          break;
        default:
          text += "\r\n";
      }
    }
    every_way_finds(text, random.below(2) == 0 ? SIZE_MAX : random.below(150));
  }
}

BOOST_AUTO_TEST_SUITE_END()
