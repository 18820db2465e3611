#include "tlsrpt/gather.h"

#include <algorithm>

#include "lib/base/text.h"

namespace pen::tlsrpt {
namespace {

std::string cut(const std::string& text) { return printable(text, Gathering::kMaxText); }
std::vector<std::string> cut(const std::vector<std::string>& texts) {
  std::vector<std::string> out;
  for (const auto& t : texts)
    if (out.size() < Gathering::kMaxStrings) out.push_back(cut(t));
  return out;
}

std::size_t size_of(const std::vector<std::string>& texts) {
  std::size_t out = 0;
  for (const std::string& text : texts) out += sizeof text + text.size();
  return out;
}
/// About what it takes, without its failures.
std::size_t size_of(const PolicyResult& p) { return sizeof p + size_of(p.strings) + size_of(p.mx_patterns); }
std::size_t size_of(const Failure& f) {
  return sizeof f + f.sending_ip.size() + f.mx_host.size() + f.receiving_ip.size() + f.reason.size();
}

}  // namespace

std::size_t DomainDay::reckoned() const {
  std::size_t out = 0;
  for (const PolicyResult& p : policies) {
    out += size_of(p);
    for (const Failure& f : p.details) out += size_of(f);
  }
  return out;
}

bool add(daily_reports::Days<DomainDay>& days, const Attempt& attempt, WallTime now) {
  DomainDay* day = days.today(attempt.domain, now);
  if (day == nullptr) return false;
  constexpr std::size_t kMaxPolicies = Gathering::kMaxPolicies, kMaxDetails = Gathering::kMaxDetails;
  auto& policies = day->policies;
  const auto strings = cut(attempt.policy_strings), patterns = cut(attempt.mx_patterns);
  auto p = std::ranges::find_if(policies, [&](const PolicyResult& one) {
    return one.type == attempt.policy && one.strings == strings && one.mx_patterns == patterns;
  });
  if (p == policies.end()) {
    if (policies.size() < kMaxPolicies) {
      PolicyResult fresh;
      fresh.type = attempt.policy;
      fresh.strings = strings;
      fresh.mx_patterns = patterns;
      if (days.grow(*day, size_of(fresh))) policies.push_back(std::move(fresh));
    }
    if (policies.empty()) return false;
    p = policies.end() - 1;  // too many policies: count under the last one
  }
  if (attempt.result == ResultType::success) {
    ++p->successes;
    return true;
  }
  ++p->failures;
  Failure f{
      attempt.result, cut(attempt.sending_ip), cut(attempt.mx_host), cut(attempt.receiving_ip), cut(attempt.reason), 1};
  const auto same = std::ranges::find_if(p->details, [&](const Failure& d) {
    return d.result == f.result && d.sending_ip == f.sending_ip && d.mx_host == f.mx_host &&
           d.receiving_ip == f.receiving_ip && d.reason == f.reason;
  });
  if (same != p->details.end())
    ++same->count;
  else if (p->details.size() < kMaxDetails && days.grow(*day, size_of(f)))
    p->details.push_back(std::move(f));
  return true;
}

}  // namespace pen::tlsrpt
