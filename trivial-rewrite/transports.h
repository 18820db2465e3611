#pragma once
/// Reads the transports of master.cf and main.cf for the router.
#include <map>
#include <memory>

#include "lib/config/config.h"
#include "trivial-rewrite/router.h"

namespace pen::rewrite {

/// Transports by service name of master.cf (unix services). own_addresses: this host's.
/// Errors: a port setting that names no port.
Result<std::map<std::string, Transport>> read_transports(const config::Config& config,
                                                         const std::vector<std::string>& own_addresses);

}  // namespace pen::rewrite
