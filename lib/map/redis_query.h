#pragma once
/// The query of a redis: table: a command and its arguments, as redis-cli takes them, with parts of the key in it.
///
/// Form:    words with blanks between; "…" and '…' keep blanks together; a backslash takes the next byte as it is,
///          everywhere.
/// Use:     template.expand(key, quote_redis)  ->  split_redis(text)  ->  the words of the command
/// Promise: a part of a key that was quoted stays within its word, whatever bytes it has.
/// Pure but for names of ports; any thread.
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/net/helper/server_address.h"

namespace pen::map {

/// "host", "host:port", with or without "inet:", or "unix:/path". port: for a host alone; empty: 6379.
std::expected<helper::ServerAddress, std::string> redis_server(std::string_view host, std::string_view port);

bool quote_redis(std::string_view text, std::string& out);
/// nullopt: a quote or a backslash has no end.
std::optional<std::vector<std::string>> split_redis(std::string_view query);
/// Commands that only read, and give one reply. Others would change data, or what the connection's next reply is.
bool is_redis_reader(std::string_view command);
/// Their names, for messages.
std::string redis_readers();

}  // namespace pen::map
