#pragma once
/// Whether main.cf sends mail to a transport by a setting: for how bad it is that its service cannot start.
///
/// Pure; any thread.
#include <string_view>

#include "lib/config/config.h"

namespace pen::config {

/// True where a …_transport names it for a class of addresses that has any. Tables may name it all the same.
bool transport_is_used(const Settings& settings, std::string_view transport);

}  // namespace pen::config
