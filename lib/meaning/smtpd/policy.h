#pragma once
/// One configuration as SMTP sessions use it: settings, lists and tables, read once and shared by all sessions that
/// began under it.
///
/// Use:     auto policy = Policy::open_policy(config, resolve);   // at start and on reload; old sessions keep theirs
/// Stress:  two of them, for a service that is under stress and one that is not: each session uses the one that is
///          true.
/// Errors:  a malformed list; an open relay (no restriction refuses mail for other hosts' destinations).
/// Thread:  immutable; any.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/mail/error_class.h"
#include "lib/map/match_list.h"
#include "lib/meaning/smtpd/auth.h"
#include "lib/meaning/smtpd/authentication_policy.h"
#include "lib/meaning/smtpd/named_lists.h"
#include "lib/meaning/smtpd/proxy_settings.h"
#include "lib/meaning/smtpd/restriction.h"
#include "lib/meaning/smtpd/tls.h"
#include "lib/receive/intake/intake.h"
#include "lib/receive/milter/settings.h"
#include "lib/receive/resolve/resolve.h"
#include "lib/receive/tenant/identity.h"
#include "lib/receive/tenant/priority.h"
#include "lib/receive/tenant/unsubscribe.h"

namespace pen::smtpd {

enum class PolicyError { open_relay = 1, bad_list, bad_template, bad_value };
inline std::string_view error_module(PolicyError) { return "smtpd policy"; }
std::string_view describe(PolicyError e);

/// EHLO keywords that can be discarded, as bits.
namespace keyword {
inline constexpr unsigned kPipelining = 1, kSize = 2, kVrfy = 4, kEnhancedStatusCodes = 8, kEightBitMime = 16,
                          kDsn = 32, kSmtpUtf8 = 64, kChunking = 128, kSilent = 256, kStartTls = 512, kAuth = 1024,
                          kRequireTls = 2048, kXclient = 4096, kXforward = 8192, kEtrn = 16384, kVerp = 32768,
                          kLimits = 65536, kMtPriority = 131072, kFutureRelease = 262144;
}

/// EHLO keywords that a client is not offered.
struct DiscardedKeywords {
  unsigned bits = 0;
  std::string words;  // for the log; empty with silent-discard
};

struct Policy {
  config::Settings settings;
  std::shared_ptr<const resolve::Resolve> resolve;

  std::vector<RestrictionList> classes;
  RestrictionList client, helo, sender, relay, recipient, data, end_of_data, etrn;
  map::OpenOptions open;  // for tables named by restrictions in access tables
  std::vector<std::string> class_names;

  std::unique_ptr<const NamedLists> named_lists;  // nullptr: no list names a DNS list
  map::MapList rbl_reply_maps;
  map::MapList reject_filter;  // smtpd_reject_filter_maps
  map::MapList reject_footer_maps;
  std::string expansion_filter;       // smtpd_expansion_filter, its characters
  map::MatchList mx_backup_networks;  // permit_mx_backup_networks
  Families families;                  // inet_protocols

  map::MatchList mynetworks;
  map::MatchList bare_newline_exclusions, event_limit_exceptions;
  map::MatchList xclient_hosts, xforward_hosts, verp_clients;  // smtpd_authorized_…
  // local_header_rewrite_clients
  bool local_rewrite_mynetworks = false, local_rewrite_interfaces = true;
  bool local_rewrite_logins = false, local_rewrite_clientcerts = false;
  bool local_rewrite_all_clientcerts = false;
  map::MatchList local_rewrite_addresses;
  map::MatchList fast_flush;  // fast_flush_domains
  map::MatchList forbidden_commands, noop_commands;
  AuthPolicy auth;
  AuthenticationPolicy authentication;
  DiscardedKeywords discarded;       // smtpd_discard_ehlo_keywords
  unsigned never_offered = 0;        // of discarded.bits, because of other settings
  map::MapList discarded_by_client;  // smtpd_discard_ehlo_keyword_address_maps
  map::MapList command_filter;
  map::MapList quotas;                 // smtpd_quota_maps
  map::MatchList returned_recipients;  // returned_mail_recipients
  map::MatchList complaint_clients;    // suppression_complaint_clients
  map::MatchList traced;               // debug_peer_list
  map::MatchList logged_permits;       // smtpd_log_access_permit_actions
  bool upstream_proxy = false;         // smtpd_upstream_proxy_protocol
  bool ipv4 = true, ipv6 = true;       // inet_protocols
  /// RCPT may have to wait for DNS or a slow table: pipelined RCPTs are then looked up together.
  bool rcpt_may_wait = false;
  /// But not those of the null sender: each is judged by how many were accepted before it.
  bool counts_recipients_of_notices = false;
  /// A policy server may be asked about recipients: then they are judged one after the other.
  bool rcpt_asks_policy = false;
  TlsMode tls;
  map::MapList relay_clientcerts;
  map::MapList tls_loglevels;                            // smtpd_tls_loglevel_maps
  bool tls_loglevel_parents = false;                     // parent_domain_matches_subdomains names these
  bool parent_domains = true;                            // parent_domain_matches_subdomains names smtpd_access_maps
  std::optional<ProxySettings> proxy;                    // smtpd_proxy_filter
  std::shared_ptr<const milter::Settings> milters;       // smtpd_milters and what belongs to them
  std::shared_ptr<const tenant::Identity> tenants;       // nullptr: there are none
  std::shared_ptr<const tenant::Priorities> priorities;  // nullptr: there are none
  std::shared_ptr<const tenant::UnsubscribeCheck> unsubscribe;  // nullptr: nobody's mail is checked
  bool unknown_recipient_checks = true;                         // receive_override_options
  mail::ErrorClasses told;                                      // notify_classes

  std::string stress;  // the setting: "yes" under stress
  /// The same configuration with stress = yes; nullptr in that itself.
  std::shared_ptr<const Policy> under_stress;
  bool stress_given = false;  // by -o: the service's load changes nothing

  std::vector<std::string> warnings;  // for the log, once at start

  /// The value of smtpd_discard_ehlo_keywords, or of its table.
  DiscardedKeywords discard(const std::vector<std::string>& words) const;

  static Result<std::shared_ptr<const Policy>> open_policy(const config::Config& config,
                                                           std::shared_ptr<const resolve::Resolve> resolve);

 private:
  static Result<std::shared_ptr<Policy>> open_one(const config::Config& config,
                                                  std::shared_ptr<const resolve::Resolve> resolve);
};

}  // namespace pen::smtpd
