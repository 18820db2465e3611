#include "tools/postsrsd.h"

#include <boost/test/unit_test.hpp>

using namespace pen::tools;

namespace {

constexpr const char* kSecrets = "/etc/penstock/postsrsd.secret";

TakenPostsrsd taken(std::string_view main, const PostsrsdFiles& files) {
  auto found = take_postsrsd(main, files, kSecrets);
  BOOST_TEST_REQUIRE(found.has_value());
  BOOST_TEST_REQUIRE(found->has_value());
  return **std::move(found);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(postsrsd)

BOOST_AUTO_TEST_CASE(the_first_kind_is_asked_by_tcp) {
  const auto out = taken(
      "sender_canonical_maps = tcp:localhost:10001\nsender_canonical_classes = envelope_sender\n"
      "recipient_canonical_maps = hash:/etc/postfix/own,\n  tcp:127.0.0.1:10002\n",
      {.defaults = "# a comment\nSRS_DOMAIN=a.example\nSRS_EXCLUDE_DOMAINS=.b.example,c.example\nSRS_SEPARATOR==\n"
                   "SRS_SECRET=/etc/srs.secret\nSRS_HASHLENGTH=5\nRUN_AS=postsrsd\n",
       .conf = ""});
  BOOST_TEST(out.main_cf ==
             "sender_canonical_maps =\nsender_canonical_classes = envelope_sender\n"
             "recipient_canonical_maps = hash:/etc/postfix/own\nsrs_domain = a.example\n"
             "srs_secrets_file = /etc/penstock/postsrsd.secret\nsrs_exclude_domains = .b.example, c.example\n"
             "srs_separator = =\nsrs_hash_length = 5\nsrs_hash_minimum = 4\n");
  BOOST_TEST(out.secrets_file == "/etc/srs.secret");
  BOOST_TEST_REQUIRE(out.dropped.size() == 2);
  BOOST_TEST(out.dropped[1].what == "sender_canonical_maps tcp:localhost:10001");
}

BOOST_AUTO_TEST_CASE(ports_of_its_own_count_and_what_debians_script_asks_for_is_the_domain) {
  const auto out =
      taken("sender_canonical_maps = tcp:localhost:20001\n",
            {.defaults = "SRS_DOMAIN=`postconf -h mydomain || true`\nSRS_FORWARD_PORT=20001\n", .conf = ""});
  BOOST_TEST(out.main_cf.contains("srs_domain = $mydomain\n"));
  BOOST_TEST(out.secrets_file == "/etc/postsrsd.secret");
}

BOOST_AUTO_TEST_CASE(the_second_kind_is_asked_by_socketmap) {
  const auto out = taken(
      "sender_canonical_maps = socketmap:unix:srs:forward\nrecipient_canonical_maps = socketmap:unix:srs:reverse\n",
      {.defaults = "",
       .conf = "domains = { \"a.example\", \"b.example\" }\nsecrets-file = \"/etc/srs/secret\"\nhash-length = "
               "6\nhash-minimum = 5\n"
               "socketmap = unix:/var/spool/postfix/srs\nseparator = \"+\"\n"});
  BOOST_TEST(out.main_cf ==
             "sender_canonical_maps =\nrecipient_canonical_maps =\nsrs_domain = a.example\n"
             "srs_secrets_file = /etc/penstock/postsrsd.secret\nsrs_separator = +\nsrs_hash_length = 6\n"
             "srs_hash_minimum = 5\n");
  BOOST_TEST(out.secrets_file == "/etc/srs/secret");
}

BOOST_AUTO_TEST_CASE(a_configuration_that_does_not_ask_it_stays) {
  const PostsrsdFiles both{.defaults = "SRS_DOMAIN=a.example\n", .conf = "srs-domain = \"b.example\"\n"};
  for (const char* main : {"", "canonical_maps = tcp:localhost:10009\n", "relayhost = [a.example]\n"})
    BOOST_TEST(!take_postsrsd(main, both, kSecrets)->has_value(), main);
  // Without postsrsd's files the server on that port is not known.
  BOOST_TEST(!take_postsrsd("sender_canonical_maps = tcp:localhost:10001\n", {}, kSecrets)->has_value());
}

BOOST_AUTO_TEST_SUITE_END()
