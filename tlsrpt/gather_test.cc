#include "tlsrpt/gather.h"

#include <boost/test/unit_test.hpp>
#include <set>

using namespace pen;
using namespace pen::tlsrpt;

namespace {

WallTime at(std::int64_t day, seconds into = seconds(0)) { return WallTime(std::chrono::days(day)) + into; }
Attempt attempt(const std::string& domain, ResultType result = ResultType::success,
                const std::string& host = "mx.example") {
  Attempt a;
  a.domain = domain;
  a.result = result;
  if (result != ResultType::success) a.mx_host = host;
  return a;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tlsrpt_gather)

BOOST_AUTO_TEST_CASE(attempts_are_counted_by_domain_day_and_policy) {
  Gathering g(1);
  BOOST_TEST(add(g, attempt("A.example"), at(100)));
  BOOST_TEST(add(g, attempt("a.example"), at(100, seconds(86399))));
  BOOST_TEST(add(g, attempt("a.example", ResultType::certificate_expired), at(100)));
  BOOST_TEST(add(g, attempt("a.example"), at(101)));
  auto dane = attempt("a.example");
  dane.policy = PolicyType::tlsa;
  dane.policy_strings = {"3 1 1 aa"};
  BOOST_TEST(add(g, dane, at(100)));
  const auto* day = g.find(100, "a.example");
  BOOST_REQUIRE(day != nullptr);
  BOOST_REQUIRE(day->policies.size() == 2u);
  BOOST_TEST(day->policies[0].successes == 2u);
  BOOST_TEST(day->policies[0].failures == 1u);
  BOOST_TEST(day->policies[1].successes == 1u);
  BOOST_TEST(g.find(101, "a.example")->policies[0].successes == 1u);
}

BOOST_AUTO_TEST_CASE(equal_failures_are_one_detail_and_their_number_is_bounded) {
  Gathering g(1);
  for (int i = 0; i < 3; ++i) add(g, attempt("a.example", ResultType::validation_failure), at(5));
  BOOST_REQUIRE(g.find(5, "a.example")->policies[0].details.size() == 1u);
  BOOST_TEST(g.find(5, "a.example")->policies[0].details[0].count == 3u);
  for (int i = 0; i < 500; ++i)
    add(g, attempt("a.example", ResultType::validation_failure, "mx" + std::to_string(i)), at(5));
  BOOST_TEST(g.find(5, "a.example")->policies[0].details.size() == Gathering::kMaxDetails);
  BOOST_TEST(g.find(5, "a.example")->policies[0].failures == 503u);
}

BOOST_AUTO_TEST_CASE(policies_beyond_the_bound_are_counted_with_the_last) {
  Gathering g(1);
  for (int i = 0; i < 20; ++i) {
    auto a = attempt("a.example");
    a.policy_strings = {std::to_string(i)};
    BOOST_TEST(add(g, a, at(5)));
  }
  const auto& policies = g.find(5, "a.example")->policies;
  BOOST_TEST(policies.size() == Gathering::kMaxPolicies);
  BOOST_TEST(policies.back().successes == 20 - Gathering::kMaxPolicies + 1);
}

BOOST_AUTO_TEST_CASE(what_strangers_write_takes_a_bounded_number_of_bytes) {
  Gathering g(1);
  const std::string text(Gathering::kMaxText, 't');
  for (std::size_t domain = 0; domain < 400; ++domain) {
    const std::string name = std::to_string(domain) + ".example";
    for (std::size_t policy = 0; policy < Gathering::kMaxPolicies; ++policy) {
      auto a = attempt(name);
      a.policy_strings.assign(Gathering::kMaxStrings, text);
      a.policy_strings.front() = std::to_string(policy);
      a.mx_patterns.assign(Gathering::kMaxStrings, text);
      (void)add(g, a, at(5));
      a.result = ResultType::validation_failure;
      a.mx_host = a.reason = text;
      for (int i = 0; i < 30; ++i) {
        a.receiving_ip = std::to_string(i);
        (void)add(g, a, at(5));
      }
    }
    const DomainDay* day = g.find(5, name);
    BOOST_REQUIRE(day->bytes <= Gathering::kMaxDayBytes);
    BOOST_REQUIRE(day->bytes == day->reckoned());
  }
  BOOST_TEST(g.bytes() <= Gathering::kMaxBytes);
  BOOST_TEST(g.find(5, "0.example")->policies.front().failures == 30u);
  (void)g.drop_old(at(20));
  BOOST_TEST(g.bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(what_is_no_domain_is_not_taken) {
  Gathering g(1);
  for (const char* bad : {"", ".a", "a b", "a\r\nX: y", "a!b", "\xc3\xa4.example"})
    BOOST_TEST(!add(g, attempt(bad), at(5)), bad);
  BOOST_TEST(!add(g, attempt(std::string(256, 'a')), at(5)));
  BOOST_TEST(g.size() == 0u);
}

BOOST_AUTO_TEST_CASE(a_report_is_due_some_time_within_four_hours_after_the_day) {
  Gathering g(7);
  std::set<WallTime> times;
  for (int i = 0; i < 50; ++i) {
    const std::string domain = "d" + std::to_string(i) + ".example";
    add(g, attempt(domain), at(9, seconds(1000)));
    const auto t = g.send_time(9, domain);
    BOOST_TEST((t >= at(10)));
    BOOST_TEST((t < at(10) + Gathering::kSpread));
    times.insert(t);
  }
  BOOST_TEST(times.size() > 40u);
  BOOST_TEST((Gathering(8).send_time(9, "d1.example") != g.send_time(9, "d1.example")));
  BOOST_TEST(g.due(at(9, seconds(86399))).empty());
  const auto some = g.due(at(10, seconds(7200))).size();
  BOOST_TEST(some > 5u);
  BOOST_TEST(some < 45u);
  BOOST_TEST(g.due(at(10) + Gathering::kSpread).size() == 50u);
  BOOST_TEST(g.due(at(9, seconds(1001)), true).size() == 50u);
}

BOOST_AUTO_TEST_CASE(changes_are_told_once_and_removals_too) {
  Gathering g(1);
  add(g, attempt("a.example"), at(5));
  add(g, attempt("b.example"), at(5));
  BOOST_TEST(g.take_changes().size() == 2u);
  BOOST_TEST(g.take_changes().empty());
  add(g, attempt("a.example"), at(5));
  g.remove(5, "b.example");
  g.remove(5, "c.example");
  const auto changes = g.take_changes();
  BOOST_REQUIRE(changes.size() == 2u);
  BOOST_TEST(changes[0].value.has_value());
  BOOST_TEST(!changes[1].value.has_value());
  BOOST_TEST(changes[1].domain == "b.example");
}

BOOST_AUTO_TEST_CASE(who_has_a_report_already_is_kept_with_it) {
  Gathering g(1);
  add(g, attempt("a.example"), at(5));
  (void)g.take_changes();
  g.note_reached(5, "a.example", "x@y.example");
  g.note_reached(6, "a.example", "x@y.example");
  const auto changes = g.take_changes();
  BOOST_REQUIRE(changes.size() == 1u);
  const auto back = decode<DomainDay>(encode(*changes[0].value));
  BOOST_REQUIRE(back.has_value());
  BOOST_TEST(back->reached == std::vector<std::string>{"x@y.example"});
}

BOOST_AUTO_TEST_CASE(what_nobody_could_be_told_for_days_is_dropped) {
  Gathering g(1);
  add(g, attempt("a.example"), at(5));
  add(g, attempt("a.example"), at(8));
  BOOST_TEST(g.drop_old(at(5 + Gathering::kOldest)) == 0u);
  BOOST_TEST(g.drop_old(at(6 + Gathering::kOldest)) == 1u);
  BOOST_TEST((g.find(5, "a.example") == nullptr));
  BOOST_TEST((g.find(8, "a.example") != nullptr));
}

BOOST_AUTO_TEST_SUITE_END()
