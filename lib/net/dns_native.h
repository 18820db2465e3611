#pragma once
/// Host look-ups by the system (/etc/hosts and whatever nsswitch.conf names), and reverse names of addresses.
#include <optional>
#include <string>

#include "lib/net/dns.h"

namespace pen::net {

/// A or AAAA records by getaddrinfo. Blocking: for the handler pool.
DnsAnswer lookup_native(const std::string& name, RecordType type);
/// "1.2.0.192.in-addr.arpa", or the ip6.arpa form; nullopt: not a numeric address.
std::optional<std::string> reverse_name(const std::string& address);

}  // namespace pen::net
