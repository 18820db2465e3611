#pragma once
/// Which TLS policy applies to a next hop and its hosts: security level, names to match, protocols, ciphers.
///
/// Use:     auto policies = TlsPolicies::open(options);           // one transport's settings
///          auto decisions = policies.decide(next_hop, hosts);      // through an Asker
/// Order:   <program>_tls_policy_maps decides alone if it is set: looked up by next hop as written, and for a name
///          without port and brackets also by its parents (".example.org"). Otherwise <program>_tls_per_site is
///          looked up by next hop and by host. Without an entry <program>_tls_security_level (or the older settings)
///          applies.
/// Errors:  an unreadable table, a bad entry and a level that cannot be kept give a Decision with a problem: the mail
///          waits. Nothing is ever sent with less security than was asked for.
/// Thread:  any.
/// Source:  Postfix TLS_README "Client TLS security levels", postconf(5) smtp_tls_policy_maps, smtp_tls_per_site. No
///          I/O but the tables'.
#include <span>
#include <string>
#include <vector>

#include "lib/map/map.h"
#include "lib/suite/ipc/destination.h"
#include "lib/suite/ipc/tls_report.h"
#include "trivial-rewrite/nexthop.h"

namespace pen::rewrite {

/// One transport's settings, as text.
struct TlsOptions {
  std::string program = "smtp";  // names the settings: smtp_… or lmtp_…
  std::string security_level;
  bool use_tls = false, enforce_tls = false;  // used if security_level is empty
  bool enforce_peername = true;
  std::string policy_maps, per_site;
  std::string verify_match = "hostname";
  std::string secure_match = "nexthop, dot-nexthop";
  std::string fingerprint_match;
  std::string servername;           // SNI: "hostname", "nexthop", or a name
  bool wrapped = false;             // TLS from the first byte
  bool dnssec = false;              // answers of DNS may be secure: without it there is no dane
  bool force_tlsa = false;          // smtp_tls_force_insecure_host_tlsa_lookup
  bool sts_patterns = true;         // smtp_tls_enforce_sts_mx_patterns
  std::string insecure_mx = "may";  // smtp_tls_dane_insecure_mx_policy: may, encrypt, dane
  map::OpenOptions maps;
};

struct Decision {
  ipc::TlsPolicy policy;
  std::string rule;           // what decided: "smtp_tls_security_level", "smtp_tls_policy_maps (example.org)"
  bool by_table = false;      // an entry for this next hop or host decided: it overrides what domains publish
  std::string problem;        // not empty: the reason why mail for this host must wait
  std::string dsn = "4.7.5";  // of the problem; 4.7.4 if it is the host's or its domain's
  /// What the entry says of the domain's policy, for tlsrpt: the policy, and that it could not be had. With the first
  /// host only.
  std::vector<ipc::tls_report::Attempt> published = {};
};

class TlsPolicies {
 public:
  /// Errors: a level that does not exist, tables that cannot be opened.
  static Result<TlsPolicies> open(const TlsOptions& options);
  /// Level none and no tables.
  TlsPolicies() = default;

  bool blocking() const { return policy_maps_.blocking() || per_site_.blocking(); }
  /// True: the answer does not depend on next hop or host.
  bool same_for_all() const;
  /// One Decision for each host.
  std::vector<Decision> decide(const NextHop& hop, std::span<const std::string> hosts) const;
  /// The level of hosts from insecure MX records, if dane was asked for.
  ipc::TlsLevel insecure_mx() const { return insecure_mx_; }
  /// TLSA records of hosts with insecure addresses count too, if they are secure.
  bool force_tlsa() const { return options_.force_tlsa; }
  /// Faults of tables and settings at this time, as lines for the log.
  std::vector<std::string> problems() const;

 private:
  struct Entry;
  Entry look_up(const NextHop& hop) const;
  Decision finish(const Entry& entry, const NextHop& hop, const std::string& host) const;
  void apply_per_site(Entry& entry, const NextHop& hop, const std::string& host) const;

  TlsOptions options_;
  ipc::TlsLevel level_ = ipc::TlsLevel::none;
  ipc::TlsLevel insecure_mx_ = ipc::TlsLevel::may;
  std::string level_from_;
  map::MapList policy_maps_, per_site_;
};

std::string_view level_name(ipc::TlsLevel level);

}  // namespace pen::rewrite
