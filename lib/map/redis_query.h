#pragma once
/// The query of a redis: table: a command and its arguments, as redis-cli takes them, with parts of the key in it.
///
/// Form:    words with blanks between; "…" and '…' keep blanks together; a backslash takes the next byte as it is,
///          everywhere.
/// Use:     template.expand(key, quote_redis)  ->  split_redis(text)  ->  the words of the command
/// Promise: a part of a key that was quoted stays within its word, whatever bytes it has.
/// Pure; any thread.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pen::map {

bool quote_redis(std::string_view text, std::string& out);
/// nullopt: a quote or a backslash has no end.
std::optional<std::vector<std::string>> split_redis(std::string_view query);
/// Commands that only read, and give one reply. Others would change data, or what the connection's next reply is.
bool is_redis_reader(std::string_view command);
/// Their names, for messages.
std::string redis_readers();

}  // namespace pen::map
