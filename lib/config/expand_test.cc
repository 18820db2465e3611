#include "lib/config/expand.h"

#include <boost/test/unit_test.hpp>
#include <map>

namespace pen::config {
namespace {

struct Assigned {
  std::map<std::string, std::string, std::less<>> values;

  Expanded operator()(std::string_view text) const {
    return expand(text, [this](std::string_view name) -> std::optional<std::string> {
      const auto found = values.find(name);
      if (found == values.end()) return std::nullopt;
      return found->second;
    });
  }
  std::string text(std::string_view in) const {
    const Expanded result = (*this)(in);
    BOOST_TEST(result.error == "");
    return result.text;
  }
  std::string error(std::string_view in) const {
    const Expanded result = (*this)(in);
    BOOST_TEST(result.text == "");
    return result.error;
  }
};

const Assigned kNames{
    {{"a", "1"}, {"b", "two"}, {"empty", ""}, {"chain", "<$b>"}, {"self", "x$self"}, {"dovecot-lmtp_limit", "7"}}};

}  // namespace

BOOST_AUTO_TEST_SUITE(expand_test)

BOOST_AUTO_TEST_CASE(a_name_stands_for_its_value_in_all_three_spellings) {
  BOOST_TEST(kNames.text("$a ${a} $(a) $b.x") == "1 1 1 two.x");
  BOOST_TEST(kNames.text("$chain") == "<two>");
}
BOOST_AUTO_TEST_CASE(a_name_that_is_not_set_stands_for_nothing) { BOOST_TEST(kNames.text("[$none]") == "[]"); }
BOOST_AUTO_TEST_CASE(two_dollars_are_one) { BOOST_TEST(kNames.text("a$$b $$a $$$a") == "a$b $a $1"); }
BOOST_AUTO_TEST_CASE(a_name_with_a_hyphen_needs_braces) { BOOST_TEST(kNames.text("${dovecot-lmtp_limit}") == "7"); }
BOOST_AUTO_TEST_CASE(a_question_mark_gives_the_text_if_the_value_is_not_empty) {
  BOOST_TEST(kNames.text("${a?yes $b}${empty?no}${none?no}") == "yes two");
}
BOOST_AUTO_TEST_CASE(a_colon_gives_the_text_if_the_value_is_empty) {
  BOOST_TEST(kNames.text("${a:no}${empty:one}${none:{two}}") == "onetwo");
}
BOOST_AUTO_TEST_CASE(both_branches_can_be_given) {
  BOOST_TEST(kNames.text("${a?{x}:{y}}${empty?{x} : {y}}${none?{x}:{$b}}s") == "xytwos");
}
BOOST_AUTO_TEST_CASE(blanks_around_the_parts_do_not_count) {
  BOOST_TEST(kNames.text("${ a }${a }${ empty ? {x} : {y} }") == "11y");
}
BOOST_AUTO_TEST_CASE(blanks_within_braces_are_part_of_the_text) {
  BOOST_TEST(kNames.text("${a?{ yes }}${none:{ two }}.${a? x }") == " yes  two . x ");
  BOOST_TEST(kNames.text("${{ $a } == {1} ? {y} : {n}}${{ $a } == { 1 } ? {y} : {n}}") == "ny");
}
BOOST_AUTO_TEST_CASE(no_name_at_all_has_no_value) {
  BOOST_TEST(kNames.text("[${?x}]${:x}$(?x)${ ?x}${?{x}:{y}}${:{x}}${??x}") == "[]xyx");
}
BOOST_AUTO_TEST_CASE(a_comparison_alone_is_true_or_nothing) {
  BOOST_TEST(kNames.text("${{1} == {1}}${{1} == {2}}") == "true");
}
BOOST_AUTO_TEST_CASE(branches_nest) {
  BOOST_TEST(kNames.text("${none?{x}:{${empty?{yes}:{${a?{deep}:{no}}}}}}") == "deep");
}
BOOST_AUTO_TEST_CASE(numbers_compare_as_numbers_and_text_by_its_bytes) {
  BOOST_TEST(kNames.text("${{9} < {10} ? {y} : {n}}${{9a} < {10a} ? {y} : {n}}") == "yn");
  BOOST_TEST(kNames.text("${{$a} == {1} ? {y} : {n}}${{$b}!={two}?{y}:{n}}${{2}>={2}?{y}}${{2}>{2}?{y}:n}") == "ynyn");
  BOOST_TEST(kNames.text("${{1} <= {0} ? {y}}") == "");
}
BOOST_AUTO_TEST_CASE(compatibility_levels_compare_part_by_part) {
  BOOST_TEST(kNames.text("${{3.6} <level {3.10} ? {y} : {n}}${{2} <level {3.6} ? {y} : {n}}") == "yy");
  BOOST_TEST(kNames.text("${{3.6} >=level {3.6} ? {y} : {n}}${{3.10.1} <level {3.10} ? {y} : {n}}") == "yn");
  BOOST_TEST(kNames.error("${{soon} <level {3} ? {y} : {n}}").find("level") != std::string::npos);
}
BOOST_AUTO_TEST_CASE(a_value_that_refers_to_itself_is_an_error_and_says_so) {
  BOOST_TEST(kNames.error("$self").find("refers to itself") != std::string::npos);
}
BOOST_AUTO_TEST_CASE(a_value_that_doubles_at_each_step_is_cut_off) {
  Assigned bomb;
  for (int i = 0; i < 40; ++i) {
    const std::string next = "$n" + std::to_string(i + 1);
    bomb.values["n" + std::to_string(i)] = next + next;
  }
  BOOST_TEST(!bomb.error("$n0").empty());
  bomb.values["n40"] = "some text";
  BOOST_TEST(!bomb.error("$n0").empty());
}
BOOST_AUTO_TEST_CASE(a_dollar_without_a_name_is_an_error_that_tells_what_to_write) {
  BOOST_TEST(kNames.error("/^x$/").find("$$") != std::string::npos);
  BOOST_TEST(kNames.error("x$").find("$$") != std::string::npos);
}
BOOST_AUTO_TEST_CASE(malformed_braces_are_errors) {
  for (const char* text : {"${a", "$(a", "${}", "${ }", "${a x}", "${a?{x}y}", "${a:{x}:{y}}", "${{a}",
                           "${{a} = {b} ? {x}}", "${{a} == b ? {x}}", "${{a} == {b} x}", "${a;b}"})
    BOOST_TEST(!kNames.error(text).empty(), text);
}
BOOST_AUTO_TEST_CASE(all_names_of_a_text_are_found_also_in_branches_not_taken) {
  std::string found;
  for (const auto& use : names_in("$x ${y?{$z}:{$w}} ${{$v} == {1} ? {$u}} $$no"))
    found += use.name + (use.tested ? "? " : " ");
  BOOST_TEST(found == "x y? z w v u ");
}
BOOST_AUTO_TEST_CASE(it_is_told_whose_values_are_in_the_text_and_whether_one_was_missing) {
  const Lookup one = [](std::string_view name) -> std::optional<std::string> {
    if (name == "set") return "x";
    return std::nullopt;
  };
  const auto fine = expand("$set${unset?$unset}${set?{y}:{$unset}}", one);
  BOOST_TEST(fine.text == "xy");
  BOOST_TEST(!fine.undefined);
  BOOST_TEST(fine.used == std::vector<std::string>{"set"}, boost::test_tools::per_element());
  BOOST_TEST(expand("${set}$unset", one).undefined);
  BOOST_TEST(expand("${unset:$unset}", one).undefined);
  const auto compared = expand("${{$unset}=={}?{none}:{$unset}}${{${set?$unset}$set}!={}?{y}}", one);
  BOOST_TEST(compared.text == "noney");
  BOOST_TEST(!compared.undefined);
  BOOST_TEST(compared.used.empty());
  BOOST_TEST(expand("${{$unset}=={x}?{none}:{$unset}}", one).undefined);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::config
