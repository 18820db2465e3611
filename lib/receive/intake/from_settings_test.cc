// Settings of receiving by name, as programs read them.
#include "lib/receive/intake/from_settings.h"

#include <boost/test/unit_test.hpp>

#include "lib/config/config.h"

using namespace pen;

namespace {

config::Config parse(const std::string& main_cf) {
  config::Surroundings here;
  here.hostname = "mx.example.org";
  return config::Config::parse({.directory = "/", .main_cf = main_cf, .master_cf = {}, .overrides = {}}, here);
}

Result<intake::Settings> read(const std::string& main_cf) { return intake::from_settings(parse(main_cf).settings()); }

}  // namespace

BOOST_AUTO_TEST_SUITE(intake_settings)

BOOST_AUTO_TEST_CASE(non_empty_end_of_header_action_is_one_of_three) {
  using intake::UnendedHeader;
  const auto action = [](const std::string& word) { return read("non_empty_end_of_header_action = " + word + "\n"); };
  BOOST_TEST((read("")->unended == UnendedHeader::fix));
  BOOST_TEST((action("fix_quietly")->unended == UnendedHeader::fix));
  BOOST_TEST((action("add_header")->unended == UnendedHeader::tell));
  BOOST_TEST((action("Reject")->unended == UnendedHeader::refuse));
  BOOST_TEST_REQUIRE(!action("fix").has_value());
  BOOST_TEST(action("fix").error().message().contains("non_empty_end_of_header_action = fix"));
}

BOOST_AUTO_TEST_CASE(two_levels_more_than_mime_nesting_limit_are_looked_into_as_in_postfix) {
  BOOST_TEST(intake::check_specs(parse("mime_nesting_limit = 3\n").settings()).walk.max_depth == 5U);
}

BOOST_AUTO_TEST_CASE(an_unknown_word_of_receive_override_options_is_told) {
  const auto settings = read("receive_override_options = no_address_mappings, no_milter\n");
  BOOST_TEST(!settings->address_mappings);
  BOOST_TEST_REQUIRE(settings->warnings.size() == 1u);
  BOOST_TEST(settings->warnings.front() == "receive_override_options: unknown option no_milter");
}

BOOST_AUTO_TEST_CASE(cleanup_replace_stray_cr_lf_and_full_name_encoding_charset_are_read) {
  BOOST_TEST(read("")->replace_bare_cr);
  BOOST_TEST(!read("cleanup_replace_stray_cr_lf = no\n")->replace_bare_cr);
  BOOST_TEST(read("")->full_name_charset == "utf-8");
  BOOST_TEST(read("full_name_encoding_charset =\n")->full_name_charset.empty());
  const auto bad = read("full_name_encoding_charset = a?b\n");
  BOOST_TEST(bad->full_name_charset.empty());
  BOOST_TEST_REQUIRE(bad->warnings.size() == 1U);
  BOOST_TEST(bad->warnings.front().starts_with("full_name_encoding_charset: "));
}

BOOST_AUTO_TEST_CASE(requiretls_esmtp_header_needs_requiretls_enable) {
  BOOST_TEST(read("")->require_tls_header);
  BOOST_TEST(!read("requiretls_esmtp_header = no\n")->require_tls_header);
  BOOST_TEST(!read("requiretls_enable = no\n")->require_tls_header);
}

BOOST_AUTO_TEST_SUITE_END()
