#include "tools/settings_tool.h"

#include <boost/test/unit_test.hpp>

#include "tools/read_options.h"

namespace pen::tools {
namespace {

using Of = Listing::Of;

BOOST_AUTO_TEST_SUITE(settings_tool)

BOOST_AUTO_TEST_CASE(a_listing_is_as_its_options_say) {
  const auto o = read_options<SettingsTool>({"-c", "/etc/here", "-nxfj", "-o", "a = b c", "-H", "myhostname"});
  BOOST_REQUIRE(o);
  BOOST_TEST(o->directory == "/etc/here");
  BOOST_TEST((o->listing.set_only && o->listing.expand && o->listing.fold && o->listing.json));
  BOOST_TEST((o->listing.hide_values && !o->listing.hide_names));
  BOOST_REQUIRE(o->overrides.size() == 1U);
  BOOST_TEST(o->overrides[0].name == "a");
  BOOST_TEST(o->overrides[0].value == "b c");
  BOOST_TEST(o->names == std::vector<std::string>{"myhostname"}, boost::test_tools::per_element());
  BOOST_CHECK(read_options<SettingsTool>({"-P"})->listing.of == Of::overrides);
}

BOOST_AUTO_TEST_CASE(a_word_that_assigns_is_a_change) {
  const auto o = read_options<SettingsTool>({"a=1", "b = x y"});
  BOOST_REQUIRE(o);
  BOOST_CHECK(o->change == SettingsChange::set);
  BOOST_REQUIRE(o->edits.size() == 2U);
  BOOST_TEST(o->edits[1].name == "b");
  BOOST_TEST(o->edits[1].value == "x y");
}

BOOST_AUTO_TEST_CASE(removing_and_commenting_out_take_names) {
  const auto removed = read_options<SettingsTool>({"-X", "a"});
  BOOST_REQUIRE(removed);
  BOOST_CHECK(removed->edits.at(0).kind == config::Edit::Kind::remove);
  const auto commented = read_options<SettingsTool>({"-#", "a"});
  BOOST_REQUIRE(commented);
  BOOST_CHECK(commented->edits.at(0).kind == config::Edit::Kind::comment_out);
  BOOST_TEST(refusal<SettingsTool>({"-X", "a=1"}).starts_with("penconf: -X takes names, not \"a"));
  BOOST_TEST(refusal<SettingsTool>({"-e"}).starts_with("penconf: -e needs settings"));
}

BOOST_AUTO_TEST_CASE(options_that_do_not_go_together_are_refused) {
  const auto refused = [](std::initializer_list<const char*> words, const char* why) {
    const std::string text = refusal<SettingsTool>(words);
    BOOST_TEST(text.find(why) != std::string::npos, text);
  };
  refused({"-e", "-X", "a"}, "only one of -e, -#, -X");
  refused({"-M", "-P"}, "only one of -M, -F, -P");
  refused({"-m", "a"}, "-m goes alone");
  refused({"-d", "-n"}, "-d does not go together");
  refused({"-d", "a=b"}, "-d does not go together");
  refused({"-M", "a=b"}, "/master.cf by hand");
  refused({"-o", "nothing"}, "-o: ");
}

BOOST_AUTO_TEST_CASE(one_setting_is_shown_in_each_form) {
  const std::string long_value(50, 'x');
  BOOST_TEST(Listing{}.line("a", "1 2") == "a = 1 2");
  BOOST_TEST(Listing{}.line("a", "") == "a =");
  BOOST_TEST(Listing{.hide_names = true}.line("a", "1") == "1");
  BOOST_TEST(Listing{.hide_values = true}.line("a", "1") == "a");
  BOOST_TEST(Listing{.fold = true}.line("a", long_value + " " + long_value) ==
             "a = " + long_value + "\n    " + long_value);
}

BOOST_AUTO_TEST_CASE(json_is_whole_whatever_bytes_a_value_has) {
  const Listing json{.json = true};
  BOOST_TEST(json.line("a", "say \"x\"\\\n\x01") == R"({"a": "say \"x\"\\\n\u0001"})");
  BOOST_TEST(json.line("a", "\xff") == "{\"a\": \"\xEF\xBF\xBD\"}");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tools
