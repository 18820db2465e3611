#include "tlsrpt/announced.h"

#include <utility>

#include "lib/base/text.h"

namespace pen::tlsrpt {

using ipc::tls_report::PolicyType;

bool Announced::take(const ipc::tls_report::Attempt& announcement, SteadyTime now) {
  std::string domain = to_lower(announcement.domain);
  if (!known_.contains(domain) && known_.size() >= kMost) {
    std::erase_if(known_, [&](const auto& one) { return one.second.until <= now; });
    if (known_.size() >= kMost) return false;
  }
  known_[std::move(domain)] = {announcement, now + seconds(announcement.announced)};
  return true;
}

void Announced::name(ipc::tls_report::Attempt& attempt, SteadyTime now) const {
  // With texts it has its policy already.
  if (attempt.policy == PolicyType::tlsa || !attempt.policy_strings.empty() || !attempt.mx_patterns.empty()) return;
  const auto found = known_.find(to_lower(attempt.domain));
  if (found == known_.end() || found->second.until <= now) return;
  const ipc::tls_report::Attempt& known = found->second.policy;
  attempt.policy = known.policy;
  attempt.policy_strings = known.policy_strings;
  attempt.mx_patterns = known.mx_patterns;
  if (!known.policy_domain.empty()) attempt.domain = known.policy_domain;
}

}  // namespace pen::tlsrpt
