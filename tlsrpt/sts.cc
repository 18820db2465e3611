#include "tlsrpt/sts.h"

namespace pen::tlsrpt {

using ipc::tls_report::PolicyType;

void name_sts_policy(ipc::tls_report::Attempt& attempt, const mta_sts::Known& known, WallTime now) {
  if (attempt.policy == PolicyType::tlsa || !known.valid(now)) return;
  if (attempt.policy == PolicyType::no_policy_found && known.policy->mode != mta_sts::Mode::enforce) return;
  attempt.policy = PolicyType::sts;
  attempt.policy_strings = known.policy->lines();
  attempt.mx_patterns = known.policy->mx;
}

}  // namespace pen::tlsrpt
