#pragma once
/// Counts the results of TLS with each policy domain, by day (lib/send/daily_reports/days.h).
///
/// Use:     add(days, attempt, wall_now);
/// Bounds:  kMaxPolicies policies of a domain's day, each with kMaxDetails kinds of failures, and the bytes of Days.
///          Beyond them failures are still counted.
/// Thread:  one. No I/O.
/// Source:  RFC 8460 section 4.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/time.h"
#include "lib/send/daily_reports/days.h"
#include "lib/suite/ipc/tls_report.h"

namespace pen::tlsrpt {

using ipc::tls_report::Attempt;
using ipc::tls_report::PolicyType;
using ipc::tls_report::ResultType;

struct Failure {
  ResultType result = ResultType::validation_failure;
  std::string sending_ip, mx_host, receiving_ip, reason;
  std::uint64_t count = 0;
  PEN_FIELDS(result, sending_ip, mx_host, receiving_ip, reason, count)
};
/// The results of one policy; a domain that changes its policy within a day has several.
struct PolicyResult {
  PolicyType type = PolicyType::no_policy_found;
  std::vector<std::string> strings, mx_patterns;
  std::uint64_t successes = 0, failures = 0;
  std::vector<Failure> details;  // incomplete if there were too many kinds
  PEN_FIELDS(type, strings, mx_patterns, successes, failures, details)
};
struct DomainDay {
  std::int64_t day = 0;  // since 1970-01-01
  std::string domain;    // lower case
  std::vector<PolicyResult> policies;
  std::vector<std::string> reached;  // targets that got the report while others did not
  std::size_t bytes = 0;             // for Days
  std::size_t reckoned() const;
  PEN_FIELDS(day, domain, policies, reached)
};

class Gathering : public daily_reports::Days<DomainDay> {
 public:
  static constexpr std::size_t kMaxPolicies = 8, kMaxDetails = 100;
  static constexpr std::size_t kMaxText = 500,
                               kMaxStrings = 100;  // bytes of one text; texts of one list
  static constexpr seconds kSpread = daily_reports::kSpread;
  using Days::Days;
};

/// Counts the attempt. False: there is no room for another domain, or the name is invalid.
bool add(daily_reports::Days<DomainDay>& days, const Attempt& attempt, WallTime now);

}  // namespace pen::tlsrpt
