#include "tlsrpt/sts.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/text.h"

using namespace pen;
using namespace pen::tlsrpt;
using ipc::tls_report::Attempt;
using ipc::tls_report::PolicyType;

namespace {

constexpr WallTime kNow{seconds(1'800'000'000)};

mta_sts::Known known(mta_sts::Mode mode) {
  mta_sts::Known k;
  k.policy = mta_sts::Policy{mode, seconds(600), {"mx.example"}};
  k.fetched = kNow - seconds(599);
  return k;
}
Attempt named(mta_sts::Known k, PolicyType before = PolicyType::no_policy_found) {
  Attempt attempt;
  attempt.policy = before;
  name_sts_policy(attempt, k, kNow);
  return attempt;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sts_policy_of_an_attempt)

BOOST_AUTO_TEST_CASE(an_enforced_policy_is_named) {
  const Attempt attempt = named(known(mta_sts::Mode::enforce));
  BOOST_TEST((attempt.policy == PolicyType::sts));
  BOOST_TEST(join(attempt.policy_strings, "|") == "version: STSv1|mode: enforce|mx: mx.example|max_age: 600");
  BOOST_TEST(join(attempt.mx_patterns) == "mx.example");
}

BOOST_AUTO_TEST_CASE(what_was_not_verified_is_not_said_to_have_been) {
  BOOST_TEST((named(known(mta_sts::Mode::testing)).policy == PolicyType::no_policy_found));
  BOOST_TEST((named(known(mta_sts::Mode::none)).policy == PolicyType::no_policy_found));
}

BOOST_AUTO_TEST_CASE(an_attempt_under_a_policy_in_testing_gets_its_text) {
  const Attempt attempt = named(known(mta_sts::Mode::testing), PolicyType::sts);
  BOOST_TEST((attempt.policy == PolicyType::sts));
  BOOST_TEST(join(attempt.policy_strings, "|") == "version: STSv1|mode: testing|mx: mx.example|max_age: 600");
}

BOOST_AUTO_TEST_CASE(a_policy_that_could_not_be_fetched_has_no_text) {
  const Attempt attempt = named({}, PolicyType::sts);
  BOOST_TEST((attempt.policy == PolicyType::sts));
  BOOST_TEST(attempt.policy_strings.empty());
}

BOOST_AUTO_TEST_CASE(neither_an_ended_policy_nor_none_is_named) {
  mta_sts::Known ended = known(mta_sts::Mode::enforce);
  ended.fetched -= seconds(1);
  BOOST_TEST((named(ended).policy == PolicyType::no_policy_found));
  BOOST_TEST((named({}).policy == PolicyType::no_policy_found));
}

BOOST_AUTO_TEST_CASE(tlsa_records_went_before_it) {
  BOOST_TEST((named(known(mta_sts::Mode::enforce), PolicyType::tlsa).policy == PolicyType::tlsa));
}

BOOST_AUTO_TEST_SUITE_END()
