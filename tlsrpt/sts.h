#pragma once
/// Which MTA-STS policy an attempt was made under: smtp knows a level, the policy cache knows the domain's policy.
///
/// Use:     name_sts_policy(attempt, store->get(attempt.domain), wall_now);
/// An attempt that names no policy is one of the domain's only if that is enforced (an administrator's table demanded
/// something else): under one in testing a success would have the domain believe that it may enforce it.
/// Pure. Thread: any.
/// Source:  RFC 8460 section 4.4 (policy-type, policy-string, mx-host).
#include "lib/ipc/tls_report.h"
#include "lib/mta_sts/policy.h"

namespace pen::tlsrpt {

/// known: of the attempt's domain, at the time of the attempt. An attempt under another policy (TLSA records) stays
/// as it is.
void name_sts_policy(ipc::tls_report::Attempt& attempt, const mta_sts::Known& known, WallTime now);

}  // namespace pen::tlsrpt
