#include "tlsrpt/announced.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::tlsrpt;
using ipc::tls_report::Attempt;
using ipc::tls_report::PolicyType;

namespace {

const SteadyTime kBegin{std::chrono::hours(1)};

Attempt said(const std::string& domain, PolicyType type, const std::string& policy_domain = "") {
  Attempt a;
  a.domain = domain;
  a.policy = type;
  a.policy_strings = {"version: STSv1", "mode: enforce"};
  a.mx_patterns = {"*.d.example"};
  a.announced = 600;
  a.policy_domain = policy_domain;
  return a;
}

Attempt result(const std::string& domain, PolicyType type = PolicyType::no_policy_found) {
  Attempt a;
  a.domain = domain;
  a.policy = type;
  return a;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tlsrpt_announced)

BOOST_AUTO_TEST_CASE(results_are_counted_under_the_policy_that_was_announced) {
  Announced announced;
  BOOST_TEST(announced.take(said("D.example", PolicyType::sts), kBegin));
  Attempt a = result("d.example");
  announced.name(a, kBegin + seconds(599));
  BOOST_TEST((a.policy == PolicyType::sts));
  BOOST_TEST(a.policy_strings.size() == 2U);
  BOOST_TEST(a.mx_patterns.front() == "*.d.example");
  BOOST_TEST(a.domain == "d.example");
  Attempt late = result("d.example"), other = result("else.example");
  announced.name(late, kBegin + seconds(600));
  announced.name(other, kBegin);
  BOOST_TEST((late.policy == PolicyType::no_policy_found));
  BOOST_TEST((other.policy == PolicyType::no_policy_found));
}

BOOST_AUTO_TEST_CASE(they_go_to_the_policy_domain) {
  Announced announced;
  BOOST_TEST(announced.take(said("d.example", PolicyType::sts, "policy.example"), kBegin));
  Attempt a = result("d.example", PolicyType::sts);
  announced.name(a, kBegin);
  BOOST_TEST(a.domain == "policy.example");
}

BOOST_AUTO_TEST_CASE(tlsa_records_of_our_own_look_up_stay) {
  Announced announced;
  BOOST_TEST(announced.take(said("d.example", PolicyType::sts), kBegin));
  Attempt a = result("d.example", PolicyType::tlsa);
  announced.name(a, kBegin);
  BOOST_TEST((a.policy == PolicyType::tlsa));
}

BOOST_AUTO_TEST_CASE(no_more_than_so_many_are_remembered_and_who_tells_of_others_hears_it) {
  Announced announced;
  for (std::size_t i = 0; i <= Announced::kMost; ++i) {
    const bool taken = announced.take(said("d" + std::to_string(i) + ".example", PolicyType::sts), kBegin);
    if (taken != (i < Announced::kMost)) BOOST_ERROR("domain " + std::to_string(i));
  }
  BOOST_TEST(announced.size() == Announced::kMost);
  BOOST_TEST(announced.take(said("D0.example", PolicyType::sts), kBegin));  // it has a place
  BOOST_TEST(announced.take(said("new.example", PolicyType::sts), kBegin + seconds(601)));
  BOOST_TEST(announced.size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
