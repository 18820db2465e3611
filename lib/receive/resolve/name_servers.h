#pragma once
/// Which name servers a program asks: those of dns_resolver_addresses, else the machine's.
///
/// Use:     PEN_TRY_ASSIGN(auto dns, resolve::name_servers(settings, resolve::read_resolv_conf()));
///          net::Resolver resolver(loop, pool, std::move(dns));
/// Thread:  any.
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/settings.h"
#include "lib/net/dns.h"

namespace pen::resolve {

/// The text of /etc/resolv.conf. A missing file is empty, which means the server on this host, as in libc. Blocks.
std::string read_resolv_conf();
/// The domains of its lines search or domain, the last of which counts, as in libc. Pure.
std::vector<std::string> search_domains(std::string_view resolv_conf);
/// Servers and time-outs; resolv_conf counts if the settings name no servers. Errors: a malformed address. Pure.
Result<net::ResolverOptions> name_servers(const config::Settings& settings, std::string_view resolv_conf);

}  // namespace pen::resolve
