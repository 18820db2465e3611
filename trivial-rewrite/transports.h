#pragma once
/// What master.cf and main.cf say of each transport, ready for the router.
#include <map>
#include <memory>

#include "lib/config/config.h"
#include "lib/net/dns.h"
#include "trivial-rewrite/router.h"

namespace pen::rewrite {

/// By service name of master.cf (unix services). own_addresses: this host's.
/// Errors: a port setting that names no port.
Result<std::map<std::string, Transport>> read_transports(
    const config::Config& config, const std::vector<std::string>& own_addresses);
/// Name servers, time-outs: from the settings, else from the text of resolv.conf.
Result<net::ResolverOptions> resolver_options(const config::Settings& settings,
                                              std::string_view resolv_conf);

}  // namespace pen::rewrite
