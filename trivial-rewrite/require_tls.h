#pragma once
/// What a sender's wish about TLS (RFC 8689) makes of a destination's policy.
///
/// Use:     auto policies = RequireTlsPolicies::open(setting, mydomain, maps);       // smtp_requiretls_policy of a
///          transport auto rule = policies.find(hop);                                          // may ask tables:
///          blocking() auto problem = require_tls(destination, hop, facts, *rule);              // REQUIRETLS
///          give_up_published(policy);                                               // TLS-Required: No
/// Rules:   section 4.2.1. enforce: the server is one whose name DNSSEC, a published policy or the administrator
///          vouches for, its certificate is verified, and it offers REQUIRETLS (the delivery program sees to the last
///          two). opportunistic+starttls: TLS, whoever it is. opportunistic: as other mail; the parameter is passed
///          on where it can be.
/// Thread:  any. No I/O but the tables'.
/// Source:  RFC 8689; Postfix REQUIRETLS_README for the setting's words.
#include <optional>
#include <string>
#include <string_view>

#include "lib/map/map.h"
#include "trivial-rewrite/hosts.h"
#include "trivial-rewrite/nexthop.h"

namespace pen::rewrite {

enum class RequireTlsRule : std::uint8_t { enforce, opportunistic_starttls, opportunistic };

class RequireTlsPolicies {
 public:
  /// enforce for every next hop.
  RequireTlsPolicies() = default;
  /// setting: tables from next hops (the name, then its parents as ".example.org"; addresses as they are) to rules,
  /// and at the end a rule for the rest; without one it is enforce. Empty: enforce but for localhost, numeric
  /// addresses, mydomain and what is below it, which are opportunistic. Errors: tables that cannot be opened.
  static Result<RequireTlsPolicies> open(std::string_view setting, std::string_view mydomain,
                                         const map::OpenOptions& options);
  /// opportunistic for every next hop: requiretls_enable = no.
  static RequireTlsPolicies opportunistic();
  bool blocking() const { return tables_.blocking(); }
  /// Errors: a table that cannot be asked, an entry that is no rule: mail has to wait.
  Result<RequireTlsRule> find(const NextHop& hop) const;

 private:
  bool built_in_ = false;
  std::string mydomain_;
  map::MapList tables_;
  RequireTlsRule rest_ = RequireTlsRule::enforce;
};

/// Raises the policy of a destination that was found for `hop` to what the rule demands and marks it. Not nullopt:
/// mail with REQUIRETLS must not go there, and why (as a sentence that begins with "REQUIRETLS").
std::optional<std::string> require_tls(ipc::Destination& destination, const NextHop& hop, const HostFacts& facts,
                                       RequireTlsRule rule);

/// The sender does without what the recipient's domain has published: levels dane and dane-only become may. What the
/// administrator demands stays (section 4.2.2 speaks of the recipient's policies only).
void give_up_published(ipc::TlsPolicy& policy);

}  // namespace pen::rewrite
