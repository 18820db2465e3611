#include "lib/mail/address.h"

#include <boost/test/unit_test.hpp>

#include "lib/mail/delimiters.h"
#include "lib/mail/named_address.h"

using namespace pen;
using namespace pen::mail;

namespace {
std::string path(std::string_view text, PathOptions options = {}) {
  auto r = parse_path(text, options);
  return r ? *r : "error: " + std::string(describe(static_cast<AddressError>(r.error().code().value())));
}
PathOptions null_ok() {
  PathOptions o;
  o.allow_null = true;
  return o;
}
PathOptions utf8() {
  PathOptions o;
  o.smtputf8 = true;
  return o;
}
PathOptions strict() {
  PathOptions o;
  o.strict = true;
  return o;
}
}  // namespace

BOOST_AUTO_TEST_SUITE(address)

BOOST_AUTO_TEST_CASE(a_plain_path_gives_its_address) {
  BOOST_TEST(path("<a@example.org>") == "a@example.org");
  std::size_t used = 0;
  BOOST_TEST(parse_path("<a@b> SIZE=3", {}, &used).has_value());
  BOOST_TEST(used == 5U);
}
BOOST_AUTO_TEST_CASE(the_null_path_needs_permission) {
  BOOST_TEST(path("<>", null_ok()).empty());
  BOOST_TEST(path("<>").starts_with("error: null"));
}
BOOST_AUTO_TEST_CASE(source_routes_are_dropped) {
  BOOST_TEST(path("<@a.example,@b.example:u@c.example>") == "u@c.example");
  BOOST_TEST(path("<@a.example u@c.example>").starts_with("error"));
}
BOOST_AUTO_TEST_CASE(local_parts_are_quoted_only_where_needed) {
  BOOST_TEST(path("<\"a b\"@x.org>") == "\"a b\"@x.org");
  BOOST_TEST(path("<\"ab\"@x.org>") == "ab@x.org");
  BOOST_TEST(path("<\"a@b\"@x.org>") == "\"a@b\"@x.org");
  BOOST_TEST(path("<\"a\\\"b\"@x.org>") == "\"a\\\"b\"@x.org");
  BOOST_TEST(path("<a..b@x.org>") == "\"a..b\"@x.org");
}
BOOST_AUTO_TEST_CASE(domains_that_no_host_can_have_are_refused_where_that_is_asked_for) {
  PathOptions hosts;
  hosts.of_hosts = true;
  for (const char* bad : {"-bad.example", "bad-.example", "a.-b", "a.b-", "a.b-.", "192.0.2.1", "[2001:db8::1]"}) {
    BOOST_TEST(path("<u@" + std::string(bad) + ">", hosts).starts_with("error"), bad);
    BOOST_TEST(path("<u@" + std::string(bad) + ">") == "u@" + std::string(bad));  // an author that a reader would see
  }
  for (const char* good : {"b_d.example", "a--b.example", "1.example", "3com", "1.2.3.example", "a.example.",
                           "[192.0.2.1]", "[IPv6:2001:db8::1]"})
    BOOST_TEST(path("<u@" + std::string(good) + ">", hosts) == "u@" + std::string(good));
  hosts.odd_domains.numeric = true;
  BOOST_TEST(path("<u@192.0.2.1>", hosts) == "u@192.0.2.1");
}
BOOST_AUTO_TEST_CASE(literals_are_checked) {
  BOOST_TEST(path("<a@[192.0.2.1]>") == "a@[192.0.2.1]");
  BOOST_TEST(path("<a@[IPv6:2001:db8::1]>") == "a@[IPv6:2001:db8::1]");
  BOOST_TEST(path("<a@[192.0.2.256]>").starts_with("error: bad address literal"));
  BOOST_TEST(path("<a@[192.0.2.1>").starts_with("error"));
}
BOOST_AUTO_TEST_CASE(malformed_paths_are_refused) {
  for (const char* bad : {"<a@b", "a@b>", "<a@b>c", "<a b@c>", "<a@b@c>", "<@>", "<a@>", "<a@.b>", "<a@b..c>",
                          "<\"a@b>", "", " ", "<a@b!c>", "<a@b\\>", "<\"a\\", "<a,b@c>", "<a\t@b>"}) {
    BOOST_TEST(path(bad).starts_with("error"), bad);
  }
  BOOST_TEST(path("<a\x01@b>").starts_with("error"));
}
BOOST_AUTO_TEST_CASE(blanks_next_to_the_brackets_are_passed_over) {
  for (const char* text : {"< a@b.org>", "<a@b.org >", "<\ta@b.org\t >", "< @h.org:a@b.org >", "<a@b.org>\tSIZE=1"}) {
    BOOST_TEST(path(text) == "a@b.org", text);
    BOOST_TEST(path(text, strict()) == "a@b.org", text);
  }
  BOOST_TEST(path("< \"a b\" >") == "\"a b\"");
  for (const char* bad : {"<a@b.org x>", "<a @b.org>", "<a@ b.org>", "<a@b.org c@d.org>", "< ", "<a@b.org "})
    BOOST_TEST(path(bad).starts_with("error"), bad);
}
BOOST_AUTO_TEST_CASE(brackets_may_be_missing_unless_strict) {
  BOOST_TEST(path("a@b.org") == "a@b.org");
  BOOST_TEST(path("a@b.org", strict()).starts_with("error"));
}
BOOST_AUTO_TEST_CASE(an_overlong_path_is_refused) {
  BOOST_TEST(path("<" + std::string(2000, 'a') + "@b.org>").starts_with("error: address too long"));
  BOOST_TEST(path("<a@" + std::string(300, 'b') + ">").starts_with("error: bad domain"));
}
BOOST_AUTO_TEST_CASE(utf8_needs_the_parameter_and_must_be_valid) {
  BOOST_TEST(path("<j\xc3\xbcrgen@example.org>").starts_with("error: non-ASCII"));
  BOOST_TEST(path("<j\xc3\xbcrgen@b\xc3\xbc.org>", utf8()) == "j\xc3\xbcrgen@b\xc3\xbc.org");
  BOOST_TEST(path("<j\xc3@example.org>", utf8()).starts_with("error: invalid UTF-8"));
  BOOST_TEST(path("<\xed\xa0\x80@example.org>", utf8()).starts_with("error: invalid UTF-8"));
}
BOOST_AUTO_TEST_CASE(the_last_unquoted_at_separates) {
  BOOST_TEST(local_part("\"a@b\"@c") == "\"a@b\"");
  BOOST_TEST(domain_part("a@b@c") == "c");
  BOOST_TEST(domain_part("postmaster").empty());
  BOOST_TEST(!has_domain("\"a@b\""));
}
BOOST_AUTO_TEST_CASE(internal_and_external_forms_are_inverse) {
  for (const char* address : {"a@b", "\"a b\"@c", "\"a\\\\b\"@c", "\"\"@c", "\"x@y\"@c", "plain"}) {
    BOOST_TEST(to_external(to_internal(address)) == address);
  }
}
BOOST_AUTO_TEST_CASE(extensions_split_at_the_first_delimiter) {
  BOOST_TEST(split_extension("user+ext", "+").user == "user");
  BOOST_TEST(split_extension("user-a+b", "+-").extension == "a+b");
  BOOST_TEST(split_extension("+x", "+").user == "+x");
  BOOST_TEST(split_extension("owner-list", "-").user == "owner-list");
  BOOST_TEST(split_extension("list-request", "-").user == "list-request");
  BOOST_TEST(split_extension("MAILER-DAEMON", "-").user == "MAILER-DAEMON");
  BOOST_TEST(split_extension("user+ext", "").user == "user+ext");
}
BOOST_AUTO_TEST_CASE(host_names_follow_rfc_1123) {
  for (const char* good : {"a", "a.b", "a-b.c", "_dmarc.x", "1.a", "3com.example"})
    BOOST_TEST(valid_hostname(good), good);
  for (const char* bad : {"", ".a", "a.", "a..b", "-a", "a-", "a-.b", "1.2", "123", "a b", "a@b"}) {
    BOOST_TEST(!valid_hostname(bad), bad);
  }
  BOOST_TEST(!valid_hostname(std::string(64, 'a')));
  BOOST_TEST(fully_qualified("a.b"));
  BOOST_TEST(!fully_qualified("localhost"));
  BOOST_TEST(numeric_hostname("192.0.2.1"));
}
BOOST_AUTO_TEST_CASE(literal_addresses_come_in_normal_form) {
  BOOST_TEST(*literal_address("[IPv6:2001:DB8:0:0::1]") == "2001:db8::1");
  BOOST_TEST(*literal_address("[2001:db8::1]") == "2001:db8::1");
  BOOST_TEST(*literal_address("[192.000.002.001]") == "192.0.2.1");
  BOOST_TEST(!literal_address("[a]").has_value());
  BOOST_TEST(!literal_address("192.0.2.1").has_value());
}
BOOST_AUTO_TEST_CASE(address_lists_with_names_groups_comments_and_routes_are_read) {
  const auto list = parse_address_list(
      "Jo <a@x.org>, b@y.org (comment, with comma), \"Q, R\" <\"c d\"@z.org>, team: e@w.org, "
      "f@w.org;, <@r:g@v.org>,"
      " undisclosed-recipients:;, h@[IPv6:::1]");
  BOOST_REQUIRE_EQUAL(list.size(), 7U);
  BOOST_TEST(list[0].address == "a@x.org");
  BOOST_TEST(list[0].display_name == "Jo");
  BOOST_TEST(list[1].address == "b@y.org");
  BOOST_TEST(list[2].address == "\"c d\"@z.org");
  BOOST_TEST(list[2].display_name == "Q, R");
  BOOST_TEST(list[3].address == "e@w.org");
  BOOST_TEST(list[5].address == "g@v.org");
  BOOST_TEST(list[6].address == "h@[IPv6:::1]");
}
BOOST_AUTO_TEST_CASE(unreadable_list_entries_are_skipped) {
  BOOST_TEST(parse_address_list("(((, <<<>>>, \"", 10).empty());
  BOOST_TEST(parse_address_list("a@b,c@d,e@f", 2).size() == 2U);
  BOOST_TEST(parse_address_list("@, a@b", 1).size() == 1U);
  std::vector<std::string> skipped;
  BOOST_TEST(parse_address_list("a@b c@d, e@f, <g@h> <i@j> k@l, (m@n", 10, &skipped).size() == 2U);
  BOOST_TEST((skipped == std::vector<std::string>{"a@b c@d", "g@h", "k@l", "(m@n"}));
  skipped.clear();
  BOOST_TEST(parse_address_list("@, a@b, c@d", 2, &skipped).size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_name_stands_before_the_address_or_as_a_comment_behind_it) {
  BOOST_TEST(named_address("", "a@b", false) == "a@b");
  BOOST_TEST(named_address("Ada Lovelace", "a@b", false) == "Ada Lovelace <a@b>");
  BOOST_TEST(named_address("A. \"L\"", "a@b", false) == "\"A. \\\"L\\\"\" <a@b>");
  BOOST_TEST(named_address("50% Ada", "a@b", false) == "\"50% Ada\" <a@b>");
  BOOST_TEST(named_address("host!ada", "a@b", false) == "\"host!ada\" <a@b>");
  BOOST_TEST(named_address("Ada (A. L\\)", "a@b", true) == "a@b (Ada \\(A. L\\\\\\))");
  BOOST_TEST(named_address("", "a@b", true) == "a@b");
  BOOST_TEST(named_address(encoded_name("J\xc3\xbcrgen (x) K.", "utf-8"), "a@b", false) ==
             "=?utf-8?Q?J=C3=BCrgen_=28x=29_K=2E?= <a@b>");
  BOOST_TEST(encoded_name("A. \"L\"", "utf-8") == "A. \"L\"");
  BOOST_TEST(encoded_name("J\xc3\xbcrgen", "") == "J\xc3\xbcrgen");
  BOOST_TEST(encoded_name("J\xfcrgen", "iso-8859-1") == "=?iso-8859-1?Q?J=FCrgen?=");
  std::string many;
  for (int i = 0; i < 20; ++i) many += "\xc3\xa9";
  const std::string words = encoded_name(many, "utf-8");
  BOOST_TEST(
      words == "=?utf-8?Q?" +
                   [] {
                     std::string ten;
                     for (int i = 0; i < 10; ++i) ten += "=C3=A9";
                     return ten;
                   }() +
                   "?= =?utf-8?Q?" +
                   [] {
                     std::string ten;
                     for (int i = 0; i < 10; ++i) ten += "=C3=A9";
                     return ten;
                   }() +
                   "?=");
}

BOOST_AUTO_TEST_CASE(owner_request_special_keeps_lists_whole_at_a_hyphen) {
  const auto user = [](std::string_view local, bool special) {
    const std::string set = delimiters("-", special);
    return std::string(split_extension(local, set).user);
  };
  for (const char* local : {"owner-list", "list-request"}) BOOST_TEST(user(local, true) == local);
  BOOST_TEST(user("owner-list", false) == "owner");
  BOOST_TEST(user("list-request", false) == "list");
  BOOST_TEST(user("jo-ext", true) == "jo");
  BOOST_TEST(user("jo-ext", false) == "jo");
  BOOST_TEST(delimiters("+", false) == "+");
}

BOOST_AUTO_TEST_SUITE_END()
