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

BOOST_AUTO_TEST_CASE(texts_of_notices_and_the_tls_library_go_alone) {
  const auto b = read_options<SettingsTool>({"-c", "/etc/here", "-b", "/etc/here/a=b"});
  BOOST_REQUIRE(b);
  BOOST_CHECK(b->texts == Texts::expanded);
  BOOST_REQUIRE(b->overrides.size() == 1U);
  BOOST_TEST(b->overrides[0].value == "/etc/here/a=b");
  BOOST_CHECK(read_options<SettingsTool>({"-t"})->texts == Texts::written);
  BOOST_TEST(read_options<SettingsTool>({"-T", "run-version"})->library == "run-version");
  for (const auto& words : std::initializer_list<std::initializer_list<const char*>>{{"-b", "-t"},
                                                                                     {"-b", "-d"},
                                                                                     {"-b", "-x"},
                                                                                     {"-t", "-o", "a=b"},
                                                                                     {"-b", "one", "two"},
                                                                                     {"-b", "-e"},
                                                                                     {"-T", "nonsense"},
                                                                                     {"-T", "run-version", "name"},
                                                                                     {"-T", "run-version", "-b"}}) {
    const auto wrong = read_options<SettingsTool>(words);
    BOOST_REQUIRE(!wrong);
    BOOST_TEST(wrong.error().status == EX_USAGE);
  }
}

BOOST_AUTO_TEST_CASE(a_word_that_assigns_is_a_change) {
  const auto o = read_options<SettingsTool>({"a=1", "b = x y"});
  BOOST_REQUIRE(o);
  BOOST_CHECK(o->change == SettingsChange::set);
  BOOST_REQUIRE(o->edits.size() == 2U);
  BOOST_TEST(o->edits[1].name == "b");
  BOOST_TEST(o->edits[1].value == "x y");
}

BOOST_AUTO_TEST_CASE(changes_of_master_cf_are_read_as_postfix_has_them) {
  const auto set = read_options<SettingsTool>({"-F", "*/*/chroot = n"});
  BOOST_REQUIRE(set);
  BOOST_REQUIRE(set->service_edits.size() == 1U);
  BOOST_CHECK(set->service_edits[0].of == config::ServiceEdit::Of::column);
  BOOST_TEST(set->service_edits[0].type == "*");
  BOOST_TEST(set->service_edits[0].part == "chroot");
  BOOST_TEST(set->service_edits[0].value == "n");
  const auto line =
      read_options<SettingsTool>({"-Me", "127.0.0.1:10025/inet=127.0.0.1:10025 inet n - n - - smtpd -o a=b"});
  BOOST_REQUIRE(line);
  BOOST_TEST(line->service_edits.at(0).name == "127.0.0.1:10025");
  BOOST_TEST(line->service_edits.at(0).value.ends_with("smtpd -o a=b"));
  const auto removed = read_options<SettingsTool>({"-PX", "smtp/inet/a"});
  BOOST_REQUIRE(removed);
  BOOST_CHECK(removed->service_edits.at(0).kind == config::Edit::Kind::remove);
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
  refused({"-m", "a"}, "-m, -a, -A and -l go alone");
  refused({"-l", "-e", "a=b"}, "-m, -a, -A and -l go alone");
  refused({"-d", "-n"}, "-d does not go together");
  refused({"-d", "a=b"}, "-d does not go together");
  refused({"-M", "a=b"}, "\"a\" is not in the form SERVICE/TYPE");
  refused({"-MX", "a/unix=b"}, "-X takes SERVICE/TYPE, not");
  refused({"-Me", "a/unix"}, "-e takes SERVICE/TYPE=VALUE, not");
  refused({"-Me", "*/unix=a unix - - - - - smtp"}, "is no single service");
  refused({"-P", "a/unix=b"}, "is not in the form SERVICE/TYPE/NAME");
  refused({"-PX", "a/unix/"}, "is not in the form SERVICE/TYPE/NAME");
  refused({"-FX", "a/unix/chroot"}, "-F does not go together with -X");
  refused({"-P#", "a/unix/b"}, "-P does not go together with -#");
  refused({"-MX"}, "-X needs services");
  refused({"-C", "some"}, "builtin, service, user and all");
  refused({"-o", "nothing"}, "-o: ");
}

BOOST_AUTO_TEST_CASE(one_setting_is_shown_in_each_form) {
  const std::string long_value(50, 'x');
  BOOST_TEST(Listing{}.line("a", "1 2") == "a = 1 2");
  BOOST_TEST(Listing{}.line("a", "") == "a =");
  BOOST_TEST(Listing{.hide_names = true}.line("a", "1") == "1");
  BOOST_TEST(Listing{.hide_values = true}.line("a", "1") == "a");
  BOOST_TEST(Listing{}.line("a", "  1,\t 2    { x   y }  ") == "a = 1, 2 { x y }");  // as postconf
  BOOST_TEST(Listing{.hide_names = true}.line("a", " 1   2") == "1 2");
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
