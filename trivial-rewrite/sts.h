#pragma once
/// MTA-STS for a destination: what its TLS policy becomes by the policy of the domain that the mail is for.
///
/// Use:     Applied a = co_await finder.find(hop.host);                  // where sts_may_decide() says that it matters
///          apply_sts(decision, host, a, options);
/// Order:   an entry of smtp_tls_policy_maps (or of the older table) decides alone; then usable TLSA records (RFC
///          8461 section 2: MTA-STS never overrides DANE, failing DANE neither); then MTA-STS. Levels fingerprint,
///          secure and dane-only of the settings stay: they demand more than a domain can.
/// Rules:   enforce: a host that the policy does not name is no host for the domain, and of one that it names the
///          certificate is verified as at level secure, for that very name, with TLS 1.2 or later. testing: nothing
///          changes but what is told, in the log, and in reports of the certificate too.
/// Domain:  the next hop's, where it goes by MX records: section 3.4 makes that of a relayhost without brackets, too.
/// Thread:  any. Pure.
/// Source:  RFC 8461 sections 3.4, 4, 5.
#include <string>

#include "lib/mta_sts/finder.h"
#include "trivial-rewrite/tls_policy.h"

namespace pen::rewrite {

struct StsOptions {
  bool enable = false;    // smtp_mta_sts_enable
  std::string ca_file;    // whom to trust; empty: whom the client's other settings trust
  std::string protocols;  // for smtp where its own settings permit less than TLS 1.2
};

/// Whether a policy of the next hop's domain could change the decision, as it is after DANE.
bool sts_may_decide(const Decision& decision, const NextHop& hop);

/// Returns what is to be logged of a host that a policy in testing does not name; empty: nothing.
std::string apply_sts(Decision& decision, const std::string& host, const mta_sts::Applied& applied,
                      const StsOptions& options);

}  // namespace pen::rewrite
