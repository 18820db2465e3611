#pragma once
/// The driver of memcache: tables. It needs no library, and so is no module.
#include <expected>
#include <string>
#include <string_view>

#include "lib/map/database_driver.h"
#include "lib/net/helper/server_address.h"

namespace pen::map::database {

/// Lives as long as the process.
Driver* memcache_driver();

/// "inet:host:port" and "unix:/path"; of a host alone port 11211.
std::expected<helper::ServerAddress, std::string> memcache_server(std::string_view text);

}  // namespace pen::map::database
