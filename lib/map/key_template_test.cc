#include "lib/map/key_template.h"

#include <boost/test/unit_test.hpp>

namespace pen::map {
namespace {

/// Puts each value between < >.
std::string query(std::string_view text, std::string_view key) {
  const auto parsed = KeyTemplate::parse(text, "query");
  BOOST_REQUIRE(parsed.has_value());
  const auto quote = [](std::string_view part, std::string& out) {
    out.append("<").append(part).append(">");
    return true;
  };
  return parsed->expand(KeyParts(key), quote).value_or("(no query)");
}
std::string result(std::string_view text, std::string_view value, std::string_view key) {
  const auto parsed = KeyTemplate::parse(text, "result_format");
  BOOST_REQUIRE(parsed.has_value());
  return parsed->expand_result(KeyParts(value), KeyParts(key)).value_or("(skipped)");
}

BOOST_AUTO_TEST_SUITE(key_templates)

BOOST_AUTO_TEST_CASE(a_query_has_the_parts_of_the_key) {
  BOOST_TEST(query("%s|%u|%d|%S|%U|%D|%%", "a@b@sub.x.org") ==
             "<a@b@sub.x.org>|<a@b>|<sub.x.org>|<a@b@sub.x.org>|<a@b>|<sub.x.org>|%");
  BOOST_TEST(query("%3.%2.%1", "a@sub.x.org") == "<sub>.<x>.<org>");
  BOOST_TEST(query("no part", "key") == "no part");
}

BOOST_AUTO_TEST_CASE(a_key_without_an_at_is_its_own_local_part) {
  BOOST_TEST(query("%u", "user") == "<user>");
  BOOST_TEST(query("%s", "@x.org") == "<@x.org>");
}

BOOST_AUTO_TEST_CASE(a_key_that_lacks_a_part_is_not_asked_for) {
  BOOST_TEST(query("%d", "user") == "(no query)");
  BOOST_TEST(query("%d", "user@") == "(no query)");
  BOOST_TEST(query("%u", "@x.org") == "(no query)");
  BOOST_TEST(query("%U", "@x.org") == "(no query)");
  BOOST_TEST(query("%3", "a@x.org") == "(no query)");
  BOOST_TEST(query("%1", "user") == "(no query)");
  BOOST_TEST(query("%2", "a@.org") == "(no query)");
  BOOST_TEST(query("%1", "a@.") == "(no query)");
}

BOOST_AUTO_TEST_CASE(labels_are_what_stands_between_dots) { BOOST_TEST(query("%2 %1", "a@x..org.") == "<x> <org>"); }

BOOST_AUTO_TEST_CASE(a_part_that_cannot_be_quoted_makes_no_query) {
  const auto parsed = KeyTemplate::parse("%s", "query");
  BOOST_TEST(!parsed->expand(KeyParts("a"), [](std::string_view, std::string&) { return false; }));
}

BOOST_AUTO_TEST_CASE(small_letters_of_a_result_are_of_the_value_and_the_rest_of_the_key) {
  BOOST_TEST(result("%s %u %d %S %U %D %1", "v@w.net", "k@x.org") == "v@w.net v w.net k@x.org k x.org org");
  BOOST_TEST(result("%u", "plain", "k@x.org") == "plain");
  BOOST_TEST(result("%d", "plain", "k@x.org") == "(skipped)");
  BOOST_TEST(result("%u", "@w.net", "k@x.org") == "(skipped)");
  BOOST_TEST(result("%D", "v", "k") == "(skipped)");
}

BOOST_AUTO_TEST_CASE(what_a_result_needs_of_the_key_is_known_before_the_query) {
  const auto needs = KeyTemplate::parse("%d %U %2", "result_format")->result_needs_of_key();
  BOOST_TEST(needs.met_by(KeyParts("a@x.org")));
  BOOST_TEST(!needs.met_by(KeyParts("@x.org")));
  BOOST_TEST(!needs.met_by(KeyParts("a@org")));
  BOOST_TEST(KeyTemplate::parse("%d", "result_format")->result_needs_of_key().met_by(KeyParts("plain")));
}

BOOST_AUTO_TEST_CASE(other_letters_behind_a_percent_sign_are_errors) {
  for (const char* text : {"%", "a%", "%x", "%0", "% s"}) {
    const auto parsed = KeyTemplate::parse(text, "query");
    BOOST_REQUIRE(!parsed.has_value());
    BOOST_TEST(parsed.error().message().find("query: %") != std::string::npos);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::map
