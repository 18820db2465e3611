#pragma once
/// The Options of resolving from main.cf.
#include "lib/config/settings.h"
#include "lib/resolve/resolve.h"

namespace pen::resolve {

/// Everything but own_addresses comes from the settings; these from inet_interfaces, proxy_interfaces and this
/// machine's interfaces. May look up host names that inet_interfaces holds: blocking, call it at start.
Options from_settings(const config::Settings& settings);
/// Numeric addresses that are this host's own.
std::vector<std::string> own_addresses(const config::Settings& settings);
/// Those of inet_interfaces alone. May look up host names too.
std::vector<std::string> interface_addresses(const config::Settings& settings);

}  // namespace pen::resolve
