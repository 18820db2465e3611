#pragma once
/// Finds the addresses of a next hop, in levels of preference.
///
/// Use:     HostFinder finder(loop, tables, dns, random); Found f = co_await finder.find("example.org", options);
/// Rules:   RFC 5321 section 5.1: MX hosts by preference, those of equal preference shuffled; without MX records the
///          domain's own addresses, but not if only the MX hosts' addresses are missing. Null MX (RFC 7505):
///          permanent failure. If this host is in the list, it and all hosts not preferred to it are left out; if
///          none remain, the mail would come back. For the services of use_srv_lookup SRV records name hosts and ports
///          (RFC 2782): by priority, within one by chance in proportion to the weights. Addresses that no host can
///          have (unspecified, multicast, IPv6 link-local) are left out; if no others remain, the mail waits. All
///          addresses of a level have one preference and, with an address preference, one family.
/// Thread:  the loop's.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "lib/map/ask.h"
#include "lib/net/dns.h"
#include "lib/receive/resolve/dns_filter.h"
#include "lib/suite/ipc/route.h"
#include "trivial-rewrite/nexthop.h"

namespace pen::rewrite {

enum class Family : std::uint8_t { any, ipv4, ipv6 };

/// The settings of one transport, including -o options of master.cf.
struct HostOptions {
  bool lmtp = false;
  unsigned short default_port = 25;
  std::size_t address_limit = 5;  // smtp_mx_address_limit; 0: none
  Family preference = Family::any;
  bool ipv4 = true, ipv6 = true;  // inet_protocols
  bool randomize = true;
  bool balance = true;
  net::HostLookup lookup = net::HostLookup::dns;
  bool dns_disabled = false;              // disable_dns_lookups
  bool dnssec = false;                    // smtp_dns_support_level = dnssec
  bool defer_if_no_mx_address = false;    // smtp_defer_if_no_mx_address_found
  bool ignore_mx_error = false;           // ignore_mx_lookup_error
  std::string fallback_relay;             // next hops that are tried last
  std::string default_service;            // smtp_tcp_port as written
  std::vector<std::string> srv_services;  // use_srv_lookup
  bool srv_fallback = false;              // allow_srv_lookup_fallback
  bool ignore_srv_error = false;          // ignore_srv_lookup_error
  bool cname_names_host = false;          // smtp_cname_overrides_servername
  // smtp_dns_resolver_options: names without dot get the first of these domains (defnames); names that are not found
  // are tried with each (dnsrch).
  bool defnames = false, dnsrch = false;
  std::vector<std::string> search;                   // of resolv.conf
  std::shared_ptr<const resolve::DnsFilter> filter;  // smtp_dns_reply_filter; nullptr: none
  std::set<std::string> own_addresses;               // numeric
  bool whole_loopback = true;                        // this host answers on all of 127.0.0.0/8: inet_interfaces = all
  std::set<unsigned short> own_ports = {25};         // where this host itself takes mail
};

/// What DNSSEC proved about a host that was found for a next hop.
struct HostFacts {
  std::string canonical;     // the host's name after aliases
  bool secure = false;       // every answer that led to its addresses was secure
  bool by_mx = false;        // MX records, or their absence, led to it
  bool mx_secure = false;    // and those were secure
  std::string mx_canonical;  // the name that has them, after aliases
};

struct Found {
  std::vector<ipc::route::Level> levels;  // destinations with host, address, port, unix_path only
  std::vector<NextHop> hops;              // for each level, its next hop
  // By next hop as written, and host; filled only with HostOptions::dnssec.
  std::map<std::pair<std::string, std::string>, HostFacts> facts;
  seconds ttl{3600};
  /// Why there are no destinations; meaningful only if levels is empty.
  mail::DeliveryStatus status;
};

class HostFinder {
 public:
  HostFinder(async::Loop& loop, map::Asker& tables, net::Resolver& dns, Random& random)
      : loop_(loop), tables_(tables), dns_(dns), random_(random) {}
  /// options is copied, because it may change meanwhile.
  async::Task<Found> find(std::string nexthop, HostOptions options);

 private:
  friend struct Gathering;
  struct Host {
    unsigned preference = 0;
    std::uint64_t order = 0;  // random, among equals
    std::string name;
    std::uint16_t weight = 0, port = 0;  // of SRV records
  };
  struct Addresses {
    std::vector<std::string> addresses;
    seconds ttl{3600};
    mail::DeliveryStatus status;
    std::string canonical;
    bool secure = false;
  };
  async::Task<Found> find_one(NextHop hop, const HostOptions& options);
  /// nullopt: as without SRV look-up.
  async::Task<std::optional<Found>> by_srv(NextHop hop, const HostOptions& options);
  /// The hosts of an SRV answer in the order of RFC 2782.
  std::vector<Host> srv_hosts(const net::DnsAnswer& srv);
  /// The records of a name, as the transport wants them: with search domains, filtered. type A or AAAA: as
  /// smtp_host_lookup says.
  async::Task<net::DnsAnswer> look_up(std::string name, net::RecordType type, const HostOptions& options);
  async::Task<net::DnsAnswer> look_up_one(std::string name, net::RecordType type, const HostOptions& options);
  async::Task<Found> by_mx(NextHop hop, const HostOptions& options);
  /// The hosts of an MX answer, best first, no more than may ever be looked up.
  std::vector<Host> best_hosts(const net::DnsAnswer& mx, bool randomize);
  /// Puts the hosts' addresses into found, a level for each preference that is better than our own. If there are
  /// none, found.status has the reason. resolved: as hosts.
  void take_levels(Found& found, const NextHop& hop, const std::vector<Host>& hosts,
                   const std::vector<Addresses>& resolved, const HostOptions& options);
  async::Task<Found> by_host(NextHop hop, const HostOptions& options);
  async::Task<std::vector<Addresses>> resolve_all(std::vector<std::string> names, const HostOptions& options);
  async::Task<Addresses> resolve_host(std::string name, HostOptions options);
  static async::Task<void> resolve_into(HostFinder* self, std::string name, HostOptions options,
                                        std::shared_ptr<struct Gathering> into, std::size_t index);
  void append_level(std::vector<ipc::route::Level>& levels, std::vector<ipc::Destination> destinations,
                    const HostOptions& options);

  async::Loop& loop_;
  map::Asker& tables_;
  net::Resolver& dns_;
  Random& random_;
};

/// Keeps at most `limit` addresses, first levels first. With balance, the last one kept is of the other family if the
/// others are all of one. Pure.
void limit_addresses(std::vector<ipc::route::Level>& levels, std::size_t limit, bool balance);

}  // namespace pen::rewrite
