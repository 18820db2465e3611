#include "trivial-rewrite/require_tls.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::rewrite;
using ipc::TlsLevel;

BOOST_AUTO_TEST_SUITE(require_tls_suite)

namespace {

NextHop hop(const std::string& text) { return parse_nexthops(text, false, 25)->front(); }
RequireTlsRule rule(const std::string& setting, const std::string& next_hop) {
  auto policies = RequireTlsPolicies::open(setting, "Own.example", {});
  BOOST_REQUIRE(policies.has_value());
  auto found = policies->find(hop(next_hop));
  BOOST_REQUIRE(found.has_value());
  return *found;
}
ipc::Destination at(TlsLevel level) {
  ipc::Destination d;
  d.host = "mx.example.org";
  d.address = "192.0.2.1";
  d.port = 25;
  d.tls.level = level;
  return d;
}
HostFacts secure_mx() {
  HostFacts facts;
  facts.by_mx = facts.mx_secure = facts.secure = true;
  return facts;
}

}  // namespace

BOOST_AUTO_TEST_CASE(without_a_setting_only_hosts_of_ones_own_are_excused) {
  using enum RequireTlsRule;
  BOOST_CHECK(rule("", "example.org") == enforce);
  BOOST_CHECK(rule("", "[mx.example.org]:26") == enforce);
  BOOST_CHECK(rule("", "own.example") == opportunistic);
  BOOST_CHECK(rule("", "[store.own.example]:2525") == opportunistic);
  BOOST_CHECK(rule("", "notown.example") == enforce);
  BOOST_CHECK(rule("", "localhost") == opportunistic);
  BOOST_CHECK(rule("", "[192.0.2.7]") == opportunistic);
}

BOOST_AUTO_TEST_CASE(tables_come_first_and_a_last_word_is_for_the_rest) {
  using enum RequireTlsRule;
  const std::string setting = "inline:{ a.example=opportunistic, .b.example = opportunistic+starttls } enforce";
  BOOST_CHECK(rule(setting, "a.example") == opportunistic);
  BOOST_CHECK(rule(setting, "x.a.example") == enforce);
  BOOST_CHECK(rule(setting, "x.y.b.example") == opportunistic_starttls);
  BOOST_CHECK(rule(setting, "b.example") == enforce);
  BOOST_CHECK(rule("opportunistic", "b.example") == opportunistic);
  BOOST_CHECK(rule("enforce", "[192.0.2.7]") == enforce);
  BOOST_CHECK(rule("inline:{ a.example=opportunistic }", "c.example") == enforce);
}

BOOST_AUTO_TEST_CASE(an_entry_that_is_no_rule_is_an_error) {
  auto policies = RequireTlsPolicies::open("inline:{ a.example=maybe }", "own.example", {});
  BOOST_REQUIRE(policies.has_value());
  BOOST_TEST(!policies->find(hop("a.example")).has_value());
  BOOST_TEST(!RequireTlsPolicies::open("sometimes", "own.example", {}).has_value());
}

BOOST_AUTO_TEST_CASE(a_server_that_nobody_vouches_for_gets_no_such_mail) {
  for (const TlsLevel level : {TlsLevel::none, TlsLevel::may, TlsLevel::encrypt}) {
    auto d = at(level);
    const auto problem = require_tls(d, hop("example.org"), {}, RequireTlsRule::enforce);
    BOOST_REQUIRE(problem.has_value());
    BOOST_TEST(problem->starts_with("REQUIRETLS "));
    BOOST_TEST(!d.requiretls);
  }
  HostFacts insecure;
  insecure.by_mx = true;
  auto d = at(TlsLevel::may);
  BOOST_TEST(require_tls(d, hop("example.org"), insecure, RequireTlsRule::enforce).has_value());
  BOOST_TEST(require_tls(d, hop("[192.0.2.1]"), {}, RequireTlsRule::enforce).has_value());
}

BOOST_AUTO_TEST_CASE(secure_mx_records_and_names_of_the_administrator_are_verified_by_name) {
  auto d = at(TlsLevel::may);
  BOOST_TEST(!require_tls(d, hop("example.org"), secure_mx(), RequireTlsRule::enforce).has_value());
  BOOST_CHECK(d.tls.level == TlsLevel::secure);
  BOOST_TEST(d.tls.match == std::vector<std::string>{"mx.example.org"});
  BOOST_TEST(d.tls.servername == "mx.example.org");
  BOOST_TEST(d.requiretls);
  auto named = at(TlsLevel::none);
  BOOST_TEST(!require_tls(named, hop("[mx.example.org]"), {}, RequireTlsRule::enforce).has_value());
  BOOST_CHECK(named.tls.level == TlsLevel::secure);
}

BOOST_AUTO_TEST_CASE(a_level_that_verifies_stays_what_it_is) {
  for (const TlsLevel level : {TlsLevel::fingerprint, TlsLevel::verify, TlsLevel::secure, TlsLevel::dane}) {
    auto d = at(level);
    d.tls.match = {"x"};
    const auto before = d.tls;
    BOOST_TEST(!require_tls(d, hop("example.org"), {}, RequireTlsRule::enforce).has_value());
    BOOST_CHECK(d.tls == before);
    BOOST_TEST(d.requiretls);
  }
}

BOOST_AUTO_TEST_CASE(such_mail_shares_no_connection_with_other_mail) {
  auto plain = at(TlsLevel::secure), marked = plain;
  BOOST_TEST(!require_tls(marked, hop("example.org"), {}, RequireTlsRule::enforce).has_value());
  BOOST_TEST(plain.key() != marked.key());
}

BOOST_AUTO_TEST_CASE(opportunistic_rules_ask_for_tls_at_most) {
  auto d = at(TlsLevel::may), e = at(TlsLevel::may);
  BOOST_TEST(!require_tls(d, hop("example.org"), {}, RequireTlsRule::opportunistic_starttls).has_value());
  BOOST_CHECK(d.tls.level == TlsLevel::encrypt);
  BOOST_TEST(!d.requiretls);
  BOOST_TEST(!require_tls(e, hop("example.org"), {}, RequireTlsRule::opportunistic).has_value());
  BOOST_TEST(e.key() == at(TlsLevel::may).key());
}

BOOST_AUTO_TEST_CASE(only_what_the_recipient_published_is_given_up) {
  for (const TlsLevel level : {TlsLevel::dane, TlsLevel::dane_only}) {
    ipc::TlsPolicy policy;
    policy.level = level;
    policy.tlsa = {"3 1 1 aa"};
    give_up_published(policy);
    BOOST_CHECK(policy.level == TlsLevel::may);
    BOOST_TEST(policy.tlsa.empty());
  }
  ipc::TlsPolicy own;
  own.level = TlsLevel::secure;
  own.match = {"mx.example.org"};
  const auto before = own;
  give_up_published(own);
  BOOST_CHECK(own == before);
}

BOOST_AUTO_TEST_SUITE_END()
