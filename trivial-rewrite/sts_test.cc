#include "trivial-rewrite/sts.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/text.h"

using namespace pen;
using namespace pen::rewrite;
using ipc::TlsLevel;

namespace {

const std::string kText = "(enforce, id 2026, fetched 2027-01-15 08:00 UTC, ends 2027-01-22 08:00 UTC)";

Decision at(TlsLevel level, bool by_table = false) {
  Decision d;
  d.policy.level = level;
  d.rule = "smtp_tls_security_level";
  d.by_table = by_table;
  return d;
}
NextHop hop(std::string_view text = "d.example") { return parse_nexthops(text, false, 25).value().front(); }
mta_sts::Applied applied(mta_sts::Mode mode) {
  mta_sts::Applied a;
  a.domain = "d.example";
  a.policy = mta_sts::Policy{mode, seconds(604'800), {"mx.d.example", "*.out.example"}};
  a.id = "2026";
  a.fetched = WallTime(seconds(1'800'000'000));
  return a;
}
const StsOptions kOptions{true, "/ca.pem", ">=TLSv1.2"};

}  // namespace

BOOST_AUTO_TEST_SUITE(sts)

BOOST_AUTO_TEST_CASE(policies_count_where_mail_goes_by_mx_records) {
  BOOST_TEST(sts_may_decide(at(TlsLevel::may), hop()));
  BOOST_TEST(!sts_may_decide(at(TlsLevel::may), hop("[mx.d.example]")));
  BOOST_TEST(!sts_may_decide(at(TlsLevel::may), hop("192.0.2.1")));
}

BOOST_AUTO_TEST_CASE(an_entry_of_the_policy_table_rules) {
  BOOST_TEST(!sts_may_decide(at(TlsLevel::may, true), hop()));
  BOOST_TEST(!sts_may_decide(at(TlsLevel::none, true), hop()));
}

BOOST_AUTO_TEST_CASE(dane_and_what_demands_more_than_a_policy_stay) {
  for (const auto level : {TlsLevel::none, TlsLevel::may, TlsLevel::encrypt, TlsLevel::verify})
    BOOST_TEST(sts_may_decide(at(level), hop()), level_name(level));
  for (const auto level : {TlsLevel::fingerprint, TlsLevel::secure, TlsLevel::dane, TlsLevel::dane_only})
    BOOST_TEST(!sts_may_decide(at(level), hop()), level_name(level));
}

BOOST_AUTO_TEST_CASE(failing_dane_is_not_overridden) {
  Decision d = at(TlsLevel::dane);
  d.problem = "TLSA look-up error";
  d.policy.level = TlsLevel::may;
  BOOST_TEST(!sts_may_decide(d, hop()));
}

BOOST_AUTO_TEST_CASE(enforce_demands_the_certificate_of_the_host_itself) {
  for (const char* host : {"mx.d.example", "a.out.example"}) {
    Decision d = at(TlsLevel::none);
    BOOST_TEST(apply_sts(d, host, applied(mta_sts::Mode::enforce), kOptions) == "");
    BOOST_TEST(d.problem == "");
    BOOST_TEST((d.policy.level == TlsLevel::secure));
    BOOST_TEST(join(d.policy.match) == host);
    BOOST_TEST(d.policy.servername == host);
    BOOST_TEST((d.policy.sts == ipc::StsMode::enforce));
    BOOST_TEST(d.policy.protocols == ">=TLSv1.2");
    BOOST_TEST(join(d.policy.trust_anchors) == "/ca.pem");
    BOOST_TEST(d.rule == "MTA-STS policy of d.example " + kText);
  }
}

BOOST_AUTO_TEST_CASE(a_host_that_an_enforced_policy_does_not_name_is_not_used) {
  Decision d = at(TlsLevel::may);
  BOOST_TEST(apply_sts(d, "mx.evil.example", applied(mta_sts::Mode::enforce), kOptions) == "");
  BOOST_TEST(d.dsn == "4.7.5");
  BOOST_TEST(d.problem ==
             "host mx.evil.example is not one that the MTA-STS policy of d.example (enforce, id "
             "2026) names");
}

BOOST_AUTO_TEST_CASE(testing_changes_nothing_but_what_is_told) {
  Decision d = at(TlsLevel::may);
  BOOST_TEST(apply_sts(d, "mx.d.example", applied(mta_sts::Mode::testing), kOptions) == "");
  BOOST_TEST((d.policy.level == TlsLevel::may));
  BOOST_TEST(d.policy.protocols == "");
  BOOST_TEST((d.policy.sts == ipc::StsMode::testing));  // its certificate is checked
  BOOST_TEST(join(d.policy.match) == "mx.d.example");
  BOOST_TEST(d.rule.starts_with("smtp_tls_security_level; MTA-STS policy of d.example (testing"));
  d = at(TlsLevel::may);
  BOOST_TEST(apply_sts(d, "mx.evil.example", applied(mta_sts::Mode::testing), kOptions) ==
             "MTA-STS policy of d.example (testing): host mx.evil.example is none of those that it "
             "names (mx.d.example *.out.example); if it were enforced mail would not go there");
  BOOST_CHECK(d.policy == at(TlsLevel::may).policy);
  BOOST_TEST(d.problem == "");
}

BOOST_AUTO_TEST_CASE(testing_leaves_alone_what_an_administrator_has_verified) {
  for (const auto level : {TlsLevel::none, TlsLevel::verify}) {
    Decision d = at(level);
    apply_sts(d, "mx.d.example", applied(mta_sts::Mode::testing), kOptions);
    BOOST_CHECK(d.policy == at(level).policy);
  }
}

BOOST_AUTO_TEST_CASE(mode_none_and_no_policy_change_nothing) {
  Decision d = at(TlsLevel::may);
  BOOST_TEST(apply_sts(d, "mx.evil.example", applied(mta_sts::Mode::none), kOptions) == "");
  BOOST_TEST(apply_sts(d, "mx.evil.example", {}, kOptions) == "");
  BOOST_CHECK(d.policy == at(TlsLevel::may).policy);
  BOOST_TEST(d.rule == "smtp_tls_security_level");
  BOOST_TEST(d.problem == "");
}

BOOST_AUTO_TEST_CASE(a_policy_that_could_not_be_had_is_told) {
  Decision d = at(TlsLevel::may);
  mta_sts::Applied a;
  a.domain = "d.example";
  a.outcome = mta_sts::FetchOutcome::fetch_failed;
  a.why = "HTTP status 404";
  BOOST_TEST(apply_sts(d, "mx.d.example", a, kOptions) == "");
  BOOST_CHECK(d.policy == at(TlsLevel::may).policy);
  BOOST_TEST(d.rule ==
             "smtp_tls_security_level; the MTA-STS policy of d.example could not be fetched: HTTP "
             "status 404");
}

BOOST_AUTO_TEST_CASE(mail_waits_where_a_fault_of_ours_hides_the_policy) {
  Decision d = at(TlsLevel::may);
  mta_sts::Applied a;
  a.domain = "d.example";
  a.outcome = mta_sts::FetchOutcome::no_authorities;
  a.why = "error setting certificate file: /ca.pem";
  BOOST_TEST(apply_sts(d, "mx.d.example", a, kOptions) == "");
  BOOST_TEST(d.dsn == "4.3.5");
  BOOST_TEST(d.problem ==
             "the MTA-STS policy of d.example cannot be fetched without the authorities of smtp_mta_sts_CAfile: error "
             "setting certificate file: /ca.pem");
  a = applied(mta_sts::Mode::enforce);  // one that is known counts on
  a.outcome = mta_sts::FetchOutcome::no_authorities;
  d = at(TlsLevel::may);
  apply_sts(d, "mx.d.example", a, kOptions);
  BOOST_TEST(d.problem == "");
  BOOST_TEST((d.policy.level == TlsLevel::secure));
}

BOOST_AUTO_TEST_CASE(domains_with_the_same_host_share_connections_where_policies_agree) {
  ipc::Destination one, other;
  one.host = other.host = "mx.d.example";
  one.address = other.address = "192.0.2.1";
  const auto key = [](ipc::Destination& d, const mta_sts::Applied& a) {
    Decision decision = at(TlsLevel::may);
    apply_sts(decision, d.host, a, kOptions);
    d.tls = decision.policy;
    return d.key();
  };
  mta_sts::Applied a = applied(mta_sts::Mode::enforce), b = a;
  b.domain = "e.example";
  b.id = "other";
  BOOST_TEST(key(one, a) == key(other, b));
  b.policy->mode = mta_sts::Mode::testing;
  BOOST_TEST(key(one, a) != key(other, b));
}

BOOST_AUTO_TEST_SUITE_END()
