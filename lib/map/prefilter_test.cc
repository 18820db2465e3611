#include "lib/map/prefilter.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/random.h"
#include "lib/map/pattern.h"
#include "lib/map/required_literals.h"
#include "lib/map/testing/pattern_reference.h"

using namespace pen;
using namespace pen::map;

namespace {

std::string needed(std::string_view pattern, PatternSyntax syntax = PatternSyntax::pcre) {
  std::string all;
  for (const auto& set : required_literals(pattern, syntax)) {
    if (!all.empty()) all += " &";
    for (const auto& literal : set) all += (all.empty() ? "" : " ") + literal;
  }
  return all;
}
std::string posix(std::string_view pattern) { return needed(pattern, PatternSyntax::posix_extended); }

/// A pattern of randomly combined pieces.
std::string random_pattern(Random& random, int depth = 0) {
  constexpr std::string_view kPieces[] = {"a",   "b",     "ab",   "Ab",  ".",   "[ab]", "[^a]", "\\.", "x",
                                          "\\b", "[x-z]", "(?i)", "\\d", "\\w", "^",    "$",    "ba",  "1"};
  constexpr std::string_view kQuantifiers[] = {"", "", "", "", "*", "+", "?", "{2}", "{0,1}", "{1,3}"};
  std::string pattern;
  for (auto n = 1 + random.below(4); n > 0; --n) {
    if (depth < 3 && random.below(4) == 0) {
      constexpr std::string_view kGroups[] = {"(", "(?:", "(?=", "(?!", "(?>"};
      pattern += kGroups[random.below(std::size(kGroups))];
      pattern += random_pattern(random, depth + 1) + ")";
    } else {
      pattern += kPieces[random.below(std::size(kPieces))];
    }
    pattern += kQuantifiers[random.below(std::size(kQuantifiers))];
    if (random.below(8) == 0) pattern += "|";
  }
  return pattern;
}
std::string random_text(Random& random) {
  constexpr std::string_view kBytes = "aAbB1xyz.. \n";
  std::string text;
  for (auto n = random.below(20); n > 0; --n) text += kBytes[random.below(kBytes.size())];
  return text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(prefilter)

BOOST_AUTO_TEST_CASE(a_pattern_tells_what_it_cannot_do_without) {
  BOOST_TEST(needed("viagra") == "viagra");
  BOOST_TEST(needed("^Subject:.*ViAgRa") == "subject: & viagra");
  BOOST_TEST(needed("(cialis|levitra)s?") == "cialis cialiss levitra levitras");
  BOOST_TEST(needed("v[i1]agra") == "v1agra viagra");
  BOOST_TEST(needed("colou?r") == "color colour");
  BOOST_TEST(needed("name=[^>]*\\.(exe|scr)") == "name= & .exe .scr");
  BOOST_TEST(needed("x(?:foobar)+y") == "foobar");
  BOOST_TEST(needed("foo\\b(?!bar)baz") == "foobaz");
  BOOST_TEST(needed("this literal is longer than is kept") == "this literal is ");
  BOOST_TEST(posix("^(Received|X-Mailer):.*evil") == "received: x-mailer: & evil");
  BOOST_TEST(posix("\\<evil\\>") == "evil");
}

BOOST_AUTO_TEST_CASE(a_pattern_that_can_do_without_any_text_or_is_not_understood_is_always_tried) {
  for (const std::string_view pattern : {"",
                                         ".",
                                         "a",
                                         "foo|",
                                         "foo|.*",
                                         "(foo)?",
                                         "(foo)*",
                                         "(foo){0,2}",
                                         "[a-z]+",
                                         "(foo|b)",
                                         "foo|\\d+",
                                         "\xc3\xa9\xc3\xa9",
                                         "(?x)f o o",
                                         "(*UTF)foo",
                                         "\\Qfoo\\E",
                                         "(?<a>x)(?&a)foo",
                                         "(?(1)foo|bar)",
                                         "(?#comment)foo",
                                         "foo\\x41bar",
                                         "foo{,2}",
                                         "foo(",
                                         "foo)",
                                         "(?R)foo",
                                         "\\12foo",
                                         "foo\\Kbar",
                                         "foo["})
    BOOST_TEST(needed(pattern) == "", pattern);
  for (const std::string_view pattern : {"(?:foo)", "*foo", "foo{a}", "[[.hyphen.]]foo"})
    BOOST_TEST(posix(pattern) == "", pattern);
}

BOOST_AUTO_TEST_CASE(literals_are_found_wherever_they_overlap) {
  const LiteralScan scan({"he", "she", "his", "hers", "s.h"});
  const auto found = [&](std::string_view text) {
    BitSet bits;
    scan.find(text, bits);
    std::string all;
    for (auto i = bits.next(0); i != SIZE_MAX; i = bits.next(i + 1)) all += std::to_string(i);
    return all;
  };
  BOOST_TEST(found("ushers") == "013");
  BOOST_TEST(found("HIS.HE") == "024");
  BOOST_TEST(found("") == "");
  BOOST_TEST(found("hhhhh\xff") == "");
}

BOOST_AUTO_TEST_CASE(more_literals_than_there_is_room_for_are_no_reason_to_pass_over_a_rule) {
  std::vector<Prefilter::Needed> rules;
  for (int i = 0; i < 20000; ++i) rules.push_back({{"literal" + std::to_string(i * 7919)}});
  const Prefilter filter(rules);
  BitSet candidates;
  filter.candidates("LITERAL0 " + rules[19999][0][0], candidates);
  BOOST_TEST(candidates.test(0));
  BOOST_TEST(candidates.test(19999));
  BOOST_TEST(!candidates.test(1));
  filter.candidates("nothing", candidates);
  BOOST_TEST(!candidates.test(0));
}

BOOST_AUTO_TEST_CASE(a_rule_is_tried_when_all_that_it_needs_is_there) {
  const Prefilter filter({{{"subject:"}, {"one"}}, {{"subject:"}, {"two", "2"}}, {}, {{"subject:"}}});
  const auto candidates = [&](std::string_view text) {
    BitSet rules;
    filter.candidates(text, rules);
    std::string all;
    for (auto i = rules.next(0); i != SIZE_MAX; i = rules.next(i + 1)) all += std::to_string(i);
    return all;
  };
  BOOST_TEST(candidates("Subject: One") == "023");
  BOOST_TEST(candidates("Subject: 2 and two") == "123");
  BOOST_TEST(candidates("one and two") == "2");
  BOOST_TEST(candidates("") == "2");
}

BOOST_AUTO_TEST_CASE(no_pattern_that_matches_is_passed_over_and_machine_code_finds_the_same) {
  const std::uint64_t seed = 20261125;
  BOOST_TEST_MESSAGE("seed " << seed);
  Random random(seed);
  int helped = 0, matched = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string pattern = random_pattern(random);
    for (int i = 0; i < 10; ++i) {
      const auto seen = reference::compare_ways(pattern, random_text(random));
      BOOST_TEST_REQUIRE(seen.problem == "", pattern);
      helped += seen.passed_over;
      matched += seen.matched;
    }
  }
  BOOST_TEST(helped > 1000);
  BOOST_TEST(matched > 1000);
}

BOOST_AUTO_TEST_CASE(where_no_machine_code_may_be_made_patterns_are_interpreted) {
  const pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    // Linux 6.3: from now on no memory of this process can become executable.
    if (::prctl(65 /* PR_SET_MDWE */, 1 /* PR_MDWE_REFUSE_EXEC_GAIN */, 0, 0, 0) != 0) ::_exit(2);
    Rule rule;
    rule.pattern = "(fo+)(bar)?";
    Spans spans;
    const auto pattern = PcrePattern::compile(rule, "t");
    const auto matched = pattern ? pattern->match("xfoobar", spans) : Result<bool>(false);
    ::_exit(matched && *matched && spans.at[1] == std::pair<std::size_t, std::size_t>{1, 3} ? 0 : 1);
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2)
    BOOST_TEST_MESSAGE("this kernel cannot forbid it");
  else
    BOOST_TEST(WEXITSTATUS(status) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
