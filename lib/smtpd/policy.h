#pragma once
/// One configuration as SMTP sessions use it: settings, lists and tables, read once and shared by all sessions that
/// began under it.
///
/// Use:     auto policy = Policy::open_policy(config, resolve);   // at start and on reload; old sessions keep theirs
/// Errors:  a malformed list; an open relay (no restriction refuses mail for other hosts' destinations).
/// Thread:  immutable; any.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/intake/intake.h"
#include "lib/mail/error_class.h"
#include "lib/map/match_list.h"
#include "lib/resolve/resolve.h"
#include "lib/smtpd/auth.h"
#include "lib/smtpd/proxy_settings.h"
#include "lib/smtpd/restriction.h"
#include "lib/smtpd/tls.h"

namespace pen::smtpd {

enum class PolicyError { open_relay = 1, bad_list };
inline std::string_view error_module(PolicyError) { return "smtpd policy"; }
std::string_view describe(PolicyError e);

/// EHLO keywords that can be discarded, as bits.
namespace keyword {
inline constexpr unsigned kPipelining = 1, kSize = 2, kVrfy = 4, kEnhancedStatusCodes = 8, kEightBitMime = 16,
                          kDsn = 32, kSmtpUtf8 = 64, kChunking = 128, kSilent = 256, kStartTls = 512, kAuth = 1024,
                          kRequireTls = 2048, kXclient = 4096, kXforward = 8192;
}

struct Policy {
  config::Settings settings;
  std::shared_ptr<const resolve::Resolve> resolve;

  std::vector<RestrictionList> classes;
  RestrictionList client, helo, sender, relay, recipient, data, end_of_data;
  map::OpenOptions open;  // for tables named by restrictions in access tables
  std::vector<std::string> class_names;

  map::MatchList mynetworks;
  map::MatchList bare_newline_exclusions, event_limit_exceptions;
  map::MatchList xclient_hosts, xforward_hosts;  // smtpd_authorized_…_hosts
  // local_header_rewrite_clients
  bool local_rewrite_mynetworks = false, local_rewrite_interfaces = true;
  bool local_rewrite_logins = false, local_rewrite_clientcerts = false;
  bool local_rewrite_all_clientcerts = false;
  map::MatchList local_rewrite_addresses;
  map::MatchList forbidden_commands, noop_commands;
  AuthPolicy auth;
  unsigned discarded_keywords = 0;
  std::string discarded_words;  // for the log; empty with silent-discard
  /// RCPT may have to wait for DNS or a slow table: pipelined RCPTs are then looked up together.
  bool rcpt_may_wait = false;
  TlsMode tls;
  map::MapList relay_clientcerts;
  bool parent_domains = true;            // parent_domain_matches_subdomains names smtpd_access_maps
  std::optional<ProxySettings> proxy;    // smtpd_proxy_filter
  bool unknown_recipient_checks = true;  // receive_override_options
  mail::ErrorClasses told;               // notify_classes

  std::vector<std::string> warnings;  // for the log, once at start

  static Result<std::shared_ptr<const Policy>> open_policy(const config::Config& config,
                                                           std::shared_ptr<const resolve::Resolve> resolve);
};

}  // namespace pen::smtpd
