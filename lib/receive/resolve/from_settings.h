#pragma once
/// Makes the Options of resolving from main.cf.
#include <optional>

#include "lib/config/config.h"
#include "lib/config/settings.h"
#include "lib/receive/resolve/resolve.h"

namespace pen::resolve {

/// Everything but own_addresses is a setting; own_addresses comes from inet_interfaces, proxy_interfaces and the
/// machine's interfaces. May look up host names in inet_interfaces: that blocks, so call this at start.
Options from_settings(const config::Settings& settings);
/// The same for a program that takes mail in, with what its cleanup service says.
Options from_config(const config::Config& config);
/// The same for probes of address verification, which the address_verify_* settings route; nullopt: as mail.
std::optional<Options> for_probes(const config::Settings& settings);
/// The numeric addresses of this host.
std::vector<std::string> own_addresses(const config::Settings& settings);
/// The addresses of inet_interfaces alone. May look up host names too.
std::vector<std::string> interface_addresses(const config::Settings& settings);
/// Whether a domain in the list of this setting also stands for its sub-domains (parent_domain_matches_subdomains).
bool parent_domains(const config::Settings& settings, std::string_view list);

}  // namespace pen::resolve
