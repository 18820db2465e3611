#pragma once
/// The addresses of a host that settings name: a filter, a policy server, the next mail system.
///
/// Use:     HostAddresses found = co_await net::host_addresses(resolver, pool, "/etc/hosts", name, {}, until);
/// Order:   what /etc/hosts has now, or else what the suite's DNS servers say (dns_resolver_addresses).
/// Thread:  the loop's; the pool reads the file.
#include <string>
#include <vector>

#include "lib/base/async/handler_pool.h"
#include "lib/net/dns.h"

namespace pen::net {

struct HostAddresses {
  DnsOutcome outcome = DnsOutcome::no_domain;  // found, temporary, or one of the others: there are no addresses
  std::vector<std::string> addresses;          // when found: at least one, numeric, IPv4 first
  std::string why;                             // when not, for the log
};
struct HostFamilies {
  bool ipv4 = true, ipv6 = true;
};

async::Task<HostAddresses> host_addresses(Resolver& resolver, async::HandlerPool& pool, std::string hosts_file,
                                          std::string name, HostFamilies families, async::Until until);

}  // namespace pen::net
