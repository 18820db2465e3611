#pragma once
/// Whether main.cf sends mail to a transport: decides how serious it is that the transport's service cannot start.
///
/// Pure; any thread.
#include <string_view>

#include "lib/config/config.h"

namespace pen::config {

/// True if a …_transport setting names the transport for an address class that is in use. Tables may name it as well.
bool transport_is_used(const Settings& settings, std::string_view transport);

}  // namespace pen::config
