#pragma once
/// Names the MTA-STS policy of an attempt: smtp knows only the level, the policy cache has the domain's policy.
///
/// Use:     name_sts_policy(attempt, store->get(attempt.domain), wall_now);
/// An attempt without a policy counts for the domain's policy only if that is enforced (an administrator's table
/// asked for more). Counted for a policy in testing, a success would suggest that the domain may enforce it.
/// Pure. Thread: any.
/// Source:  RFC 8460 section 4.4 (policy-type, policy-string, mx-host).
#include "lib/suite/ipc/tls_report.h"
#include "lib/trust/mta_sts/policy.h"

namespace pen::tlsrpt {

/// known: the policy of the attempt's domain at that time. An attempt under another policy (TLSA records) is left
/// alone.
void name_sts_policy(ipc::tls_report::Attempt& attempt, const mta_sts::Known& known, WallTime now);

}  // namespace pen::tlsrpt
