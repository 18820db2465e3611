#pragma once
/// Applies a sender's wish about TLS (RFC 8689) to a destination's policy.
///
/// Use:     auto policies = RequireTlsPolicies::open(setting, mydomain, maps);   // smtp_requiretls_policy
///          auto rule = policies.find(hop);                                      // may ask tables: blocking()
///          auto problem = require_tls(destination, hop, facts, *rule);          // REQUIRETLS
///          give_up_published(policy);                                           // TLS-Required: No
/// Rules:   section 4.2.1. enforce: DNSSEC, a published policy or the administrator vouches for the server's name,
///          its certificate is verified, and the server offers REQUIRETLS (the delivery program checks the last two).
///          opportunistic+starttls: TLS with any server. opportunistic: as other mail; the parameter is passed on if
///          the server offers it.
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
  /// setting: tables that map next hops to rules (looked up by name, then by parents such as ".example.org";
  /// addresses as they are), and at the end a rule for the rest; without that rule the rest is enforce. Empty:
  /// enforce, but opportunistic for localhost, numeric addresses, mydomain and its subdomains. Errors: tables that
  /// cannot be opened.
  static Result<RequireTlsPolicies> open(std::string_view setting, std::string_view mydomain,
                                         const map::OpenOptions& options);
  /// opportunistic for every next hop: requiretls_enable = no.
  static RequireTlsPolicies opportunistic();
  bool blocking() const { return tables_.blocking(); }
  /// Errors: a table cannot be read, or an entry is no rule: the mail waits.
  Result<RequireTlsRule> find(const NextHop& hop) const;

 private:
  bool built_in_ = false;
  std::string mydomain_;
  map::MapList tables_;
  RequireTlsRule rest_ = RequireTlsRule::enforce;
};

/// Raises the policy of a destination found for `hop` to what the rule demands, and marks it. Not nullopt: the reason
/// why mail with REQUIRETLS must not go there (a sentence that begins with "REQUIRETLS").
std::optional<std::string> require_tls(ipc::Destination& destination, const NextHop& hop, const HostFacts& facts,
                                       RequireTlsRule rule);

/// Drops what the recipient's domain has published, as the sender asked: levels dane and dane-only become may. The
/// administrator's demands stay (section 4.2.2 speaks only of the recipient's policies).
void give_up_published(ipc::TlsPolicy& policy);

}  // namespace pen::rewrite
