#pragma once
/// What master.cf and main.cf say of each transport, ready for the router.
#include <map>
#include <memory>

#include "lib/config/config.h"
#include "trivial-rewrite/router.h"

namespace pen::rewrite {

/// By service name of master.cf (unix services). own_addresses: this host's.
/// Errors: a port setting that names no port.
Result<std::map<std::string, Transport>> read_transports(const config::Config& config,
                                                         const std::vector<std::string>& own_addresses);

}  // namespace pen::rewrite
