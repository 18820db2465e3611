#pragma once
/// Finds the route of one recipient: resolves the address, then for SMTP and LMTP the hosts of the next hop.
///
/// Use:     Router router(loop, tables, dns, resolve, transports, seed);
///          Answer a = co_await router.route({.sender = …, .recipient = …});
/// Answers: ipc::route::Resolved with at least one destination, or Unroutable (failed or deferred).
/// Thread:  the loop's. A slow table server holds up only the routes that need it.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "lib/map/ask.h"
#include "lib/receive/resolve/resolve.h"
#include "lib/suite/ipc/route.h"
#include "trivial-rewrite/hosts.h"
#include "trivial-rewrite/login_keys.h"
#include "trivial-rewrite/require_tls.h"
#include "trivial-rewrite/sts.h"
#include "trivial-rewrite/tls_failures.h"
#include "trivial-rewrite/tls_policy.h"

namespace pen::rewrite {

/// A transport of master.cf.
struct Transport {
  enum class Program : std::uint8_t { smtp, lmtp, other };
  Program program = Program::other;
  bool deferred = false;  // by defer_transports
  HostOptions hosts;      // smtp, lmtp
  // best_mx_transport: where mail goes if this host is the best MX host; nullopt: it is returned.
  std::optional<resolve::TransportSpec> best_mx;
  TlsPolicies tls;
  StsOptions sts;
  bool reports_tls = false;  // smtp_tlsrpt_enable
  LoginKeys logins;
  RequireTlsPolicies require_tls;
};
/// What is to be routed.
struct Ask {
  std::string sender, recipient;
  mail::RequireTls wish = mail::RequireTls::unspecified;  // of the sender (RFC 8689)
  std::string way = {};                                   // mail::Envelope::transport; empty: tables say
  bool flushed = false;                                   // defer_transports does not count
  bool verification = false;                              // a probe: the address_verify_* settings count
  // The sender is rewritten if the mail goes to another host that is not one of relay_domains (SRS).
  bool forwarded = false;
};
using Answer = std::variant<ipc::route::Resolved, ipc::route::Unroutable>;

class Router {
 public:
  /// Returns nullptr for a name that master.cf does not have.
  using Transports = std::function<const Transport*(const std::string& name)>;
  /// sts: the source of policies; null: MTA-STS is off for all transports. It must outlive the router.
  Router(async::Loop& loop, map::Asker& tables, net::Resolver& dns, std::shared_ptr<const resolve::Resolve> resolve,
         Transports transports, std::uint64_t seed, mta_sts::Finder* sts = nullptr);
  /// From now on, reports failures for want of DNSSEC, TLSA records or a policy.
  using Reports = std::function<void(ipc::tls_report::Attempt)>;
  void report_tls(Reports reports) { reports_ = std::move(reports); }

  /// From now on, probes of address verification are routed by this (the address_verify_* settings).
  void route_probes_by(std::shared_ptr<const resolve::Resolve> resolve) { probe_resolve_ = std::move(resolve); }

  async::Task<Answer> route(Ask ask);

 private:
  /// By the tables, or by ask.way.
  async::Task<Result<resolve::Route>> resolved(const Ask& ask);
  /// By a transport of smtp or lmtp. `out` has what is known; may_pass: best_mx_transport counts.
  async::Task<Answer> route_by_hosts(Ask ask, const resolve::Route& route, const Transport& transport,
                                     ipc::route::Resolved out, bool may_pass);
  async::Task<Answer> route_by(Ask ask, bool may_pass);
  /// Puts the credentials' key into each destination that needs a login.
  async::Task<Result<void>> add_logins(Found& found, const LoginKeys& keys, std::string sender);
  /// Sets the TLS policy of each destination. Destinations that must wait are removed; if none is left, found.status
  /// has the reason. Returns what decided for the first destination, for people.
  async::Task<std::string> add_tls(Found& found, const Transport& transport, mail::RequireTls wish);
  /// REQUIRETLS: raises the policies, and removes forbidden destinations as add_tls() does.
  async::Task<void> add_require_tls(Found& found, const RequireTlsPolicies& policies);
  /// Completes decisions of level dane and dane-only for the destinations of one level.
  async::Task<void> add_dane(std::vector<Decision>& decisions, Found& found, std::size_t level,
                             const Transport& transport);
  /// Applies the MTA-STS policy of the next hop's domain in the same way, if it may decide.
  async::Task<void> add_sts(std::vector<Decision>& decisions, Found& found, std::size_t level,
                            const Transport& transport);
  /// The TLSA records by host, looked up concurrently.
  using TlsaSets = std::map<std::string, TlsaSet>;
  async::Task<std::shared_ptr<TlsaSets>> find_tlsa_sets(std::set<std::string> hosts, const NextHop& hop,
                                                        const Found& found, const Transport& transport);
  static async::Task<void> find_one_tlsa(Router* self, std::string host, unsigned short port, HostFacts facts,
                                         std::shared_ptr<const resolve::DnsFilter> filter,
                                         std::shared_ptr<TlsaSets> sets);
  void tell(const Transport& transport, std::optional<ipc::tls_report::Attempt> failure) const {
    if (failure && transport.reports_tls && reports_) reports_(*std::move(failure));
  }
  /// True: policies that domains publish apply to mail by this transport.
  bool has_sts(const Transport& transport) const {
    return sts_ != nullptr && transport.sts.enable && !transport.hosts.dns_disabled;
  }
  async::Loop& loop_;
  map::Asker& tables_;
  net::Resolver& dns_;
  mta_sts::Finder* sts_;
  std::shared_ptr<const resolve::Resolve> resolve_, probe_resolve_;
  Transports transports_;
  Random random_;
  HostFinder finder_;
  Reports reports_;
};

/// Makes a status from the next hop of error or retry, such as "5.7.1 text"; a text without code gets the default
/// code. Used if master.cf has no such service: the answer is given at once.
mail::DeliveryStatus status_from_nexthop(std::string_view nexthop, bool retry);

}  // namespace pen::rewrite
