#pragma once
/// Keeps the results of TLS with each policy domain, by day (UTC), until the report is sent.
///
/// Use:     Gathering g;  g.restore(each stored day);  g.add(attempt, wall_now);
///          store.write(g.take_changes());
///          for (auto& [day, domain] : g.due(wall_now)) … send its report …, g.remove(day, domain);
/// Time:    a parameter. A day's report is due after the end of the day and a delay of up to kSpread, which differs
///          by domain and by host, so that not all hosts report at midnight (RFC 8460 section 4.1).
/// Bounds:  kMaxDomains domain days, each with kMaxPolicies policies, each with kMaxDetails kinds of failures. Beyond
///          them failures are still counted, but new domains are not. Days older than kOldest are dropped: their
///          report would help nobody.
/// Thread:  one. No I/O.
/// Source:  RFC 8460 section 4.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/time.h"
#include "lib/ipc/tls_report.h"

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
  PEN_FIELDS(day, domain, policies, reached)
};

/// A change to the store; without a value: remove the entry.
struct Change {
  std::int64_t day = 0;
  std::string domain;
  std::optional<DomainDay> value;
};

class Gathering {
 public:
  static constexpr std::size_t kMaxDomains = 100'000, kMaxPolicies = 8, kMaxDetails = 100;
  static constexpr std::size_t kMaxText = 500,
                               kMaxStrings = 100;  // bytes of one text; texts of one list
  static constexpr seconds kSpread{4 * 3600};
  static constexpr std::int64_t kOldest = 3;  // days

  /// seed: for the spread; fixed for this host, also over restarts.
  explicit Gathering(std::uint64_t seed) : seed_(seed) {}

  /// False: there is no room for another domain, or the name is invalid (not letters, digits, hyphens, dots).
  bool add(const Attempt& attempt, WallTime now);
  void restore(DomainDay stored);
  /// The past days whose time has come, oldest first; all: every day, also the current one.
  std::vector<std::pair<std::int64_t, std::string>> due(WallTime now, bool all = false) const;
  const DomainDay* find(std::int64_t day, const std::string& domain) const;
  /// Notes that a target has the report while another has not.
  void note_reached(std::int64_t day, const std::string& domain, const std::string& target);
  void remove(std::int64_t day, const std::string& domain);
  /// Drops days too old to report; returns how many.
  std::size_t drop_old(WallTime now);
  /// The changes since the last call.
  std::vector<Change> take_changes();
  std::size_t size() const { return days_.size(); }

  WallTime send_time(std::int64_t day, std::string_view domain) const;

 private:
  using Key = std::pair<std::int64_t, std::string>;
  std::uint64_t seed_;
  std::map<Key, DomainDay> days_;
  std::set<Key> changed_;
};

std::int64_t day_of(WallTime t);

}  // namespace pen::tlsrpt
