#include "trivial-rewrite/tls_failures.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::rewrite;
using ipc::TlsLevel;
using ipc::tls_report::PolicyType;
using ipc::tls_report::ResultType;
using mta_sts::FetchOutcome;

BOOST_AUTO_TEST_SUITE(tls_failures)

namespace {

NextHop hop(std::string_view text = "D.example") { return parse_nexthops(text, false, 25).value().front(); }
TlsaSet set(TlsaSet::Kind kind) {
  TlsaSet s;
  s.kind = kind;
  return s;
}
Decision waits(const std::string& problem) {
  Decision d;
  d.problem = problem;
  return d;
}
mta_sts::Applied failed(FetchOutcome outcome) {
  mta_sts::Applied a;
  a.domain = "d.example";
  a.outcome = outcome;
  a.why = "HTTP status 404";
  return a;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_dns_lacks_for_dane_is_told_by_its_name) {
  struct Row {
    TlsaSet::Kind kind;
    TlsLevel level;
    std::string problem;
    std::optional<ResultType> result;
  };
  using enum TlsaSet::Kind;
  const Row rows[] = {{failed, TlsLevel::dane, "TLSA look-up error", ResultType::dnssec_invalid},
                      {unusable, TlsLevel::dane, "", ResultType::tlsa_invalid},
                      {unusable, TlsLevel::dane_only, "cannot be used", ResultType::tlsa_invalid},
                      {none, TlsLevel::dane_only, "no secure records", ResultType::dane_required},
                      {usable, TlsLevel::dane_only, "the MX records are not secure", ResultType::dane_required},
                      {none, TlsLevel::dane, "", std::nullopt},
                      {usable, TlsLevel::dane, "", std::nullopt},
                      {usable, TlsLevel::dane_only, "", std::nullopt}};
  for (const Row& row : rows) {
    const auto told = dane_failure(hop(), "mx.d.example", row.level, set(row.kind), waits(row.problem));
    BOOST_REQUIRE(told.has_value() == row.result.has_value());
    if (!told) continue;
    BOOST_TEST((told->result == *row.result));
    BOOST_TEST((told->policy == PolicyType::tlsa));
    BOOST_TEST(told->domain == "d.example");
    BOOST_TEST(told->mx_host == "mx.d.example");
    BOOST_TEST(told->reason == row.problem);
  }
}

BOOST_AUTO_TEST_CASE(a_policy_that_cannot_be_had_is_told_by_what_failed) {
  const std::pair<FetchOutcome, ResultType> rows[] = {{FetchOutcome::fetch_failed, ResultType::sts_policy_fetch_error},
                                                      {FetchOutcome::webpki_invalid, ResultType::sts_webpki_invalid},
                                                      {FetchOutcome::policy_invalid, ResultType::sts_policy_invalid}};
  for (const auto& [outcome, result] : rows) {
    const auto told = sts_failure(hop(), "mx.d.example", failed(outcome));
    BOOST_REQUIRE(told.has_value());
    BOOST_TEST((told->result == result));
    BOOST_TEST((told->policy == PolicyType::sts));
    BOOST_TEST(told->mx_host == "");
    BOOST_TEST(told->reason == "HTTP status 404");
  }
  BOOST_TEST(!sts_failure(hop(), "mx.d.example", failed(FetchOutcome::ok)).has_value());
}

BOOST_AUTO_TEST_CASE(a_host_that_a_policy_does_not_name_is_told) {
  mta_sts::Applied a;
  a.outcome = FetchOutcome::fetch_failed;  // a refresh failed: the known policy counts
  for (const auto mode : {mta_sts::Mode::enforce, mta_sts::Mode::testing}) {
    a.policy = mta_sts::Policy{mode, seconds(600), {"mx.d.example"}};
    BOOST_TEST(!sts_failure(hop(), "mx.d.example", a).has_value());
    const auto told = sts_failure(hop(), "mx.evil.example", a);
    BOOST_REQUIRE(told.has_value());
    BOOST_TEST((told->result == ResultType::validation_failure));
    BOOST_TEST(told->mx_host == "mx.evil.example");
  }
  a.policy->mode = mta_sts::Mode::none;
  BOOST_TEST(!sts_failure(hop(), "mx.evil.example", a).has_value());
}

BOOST_AUTO_TEST_CASE(hosts_that_an_administrator_named_get_no_reports) {
  BOOST_TEST(
      !dane_failure(hop("[mx.d.example]"), "mx.d.example", TlsLevel::dane, set(TlsaSet::Kind::failed), waits("x"))
           .has_value());
}

BOOST_AUTO_TEST_SUITE_END()
