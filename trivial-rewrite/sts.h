#pragma once
/// MTA-STS for a destination: applies the policy of the recipient domain to the TLS policy.
///
/// Use:     Applied a = co_await finder.find(hop.host);                  // if sts_may_decide()
///          apply_sts(decision, host, a, options);
/// Order:   an entry of smtp_tls_policy_maps (or the older table) decides alone; then usable TLSA records (RFC 8461
///          section 2: MTA-STS never overrides DANE, not even failing DANE); then MTA-STS. The settings' levels
///          fingerprint, secure and dane-only stay, because they demand more than a domain can.
/// Rules:   enforce: a host that the policy does not name is not used; a named host's certificate is verified as at
///          level secure, for exactly that name, with TLS 1.2 or later. testing: delivery does not change; failures
///          are logged, and reported for certificates too.
/// Domain:  the next hop's, if it has MX look-ups: by section 3.4 also that of a relayhost without brackets.
/// Thread:  any. Pure.
/// Source:  RFC 8461 sections 3.4, 4, 5.
#include <string>

#include "lib/trust/mta_sts/finder.h"
#include "trivial-rewrite/tls_policy.h"

namespace pen::rewrite {

struct StsOptions {
  bool enable = false;    // smtp_mta_sts_enable
  std::string ca_file;    // trusted authorities; empty: those of the client's other settings
  std::string protocols;  // for smtp, if its own settings permit less than TLS 1.2
};

/// True: a policy of the next hop's domain could change the decision, as it is after DANE.
bool sts_may_decide(const Decision& decision, const NextHop& hop);

/// Returns a log text for a host that a policy in testing does not name; empty: nothing to log.
std::string apply_sts(Decision& decision, const std::string& host, const mta_sts::Applied& applied,
                      const StsOptions& options);

}  // namespace pen::rewrite
