#include "lib/map/redis_query.h"

#include <algorithm>
#include <utility>

#include "lib/base/tcp_port.h"
#include "lib/base/text.h"

namespace pen::map {
namespace {

constexpr std::string_view kReaders[] = {"GET",     "MGET",    "HGET",       "HMGET",     "HVALS",
                                         "LINDEX",  "LRANGE",  "SMEMBERS",   "SISMEMBER", "EXISTS",
                                         "HEXISTS", "EVAL_RO", "EVALSHA_RO", "FCALL_RO",  "ZRANGE"};
bool separates(char c) { return c == ' ' || c == '\t'; }

}  // namespace

std::expected<helper::ServerAddress, std::string> redis_server(std::string_view host, std::string_view port) {
  const auto usual = tcp_port(port.empty() ? "6379" : port);
  if (!usual) return std::unexpected(std::string("no such port"));
  return helper::ServerAddress::parse(host, {.default_port = *usual, .bare = helper::ServerAddress::Bare::host});
}

bool quote_redis(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (separates(c) || c == '"' || c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return true;
}

std::optional<std::vector<std::string>> split_redis(std::string_view query) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = '\0';
  for (std::size_t i = 0; i < query.size(); ++i) {
    char c = query[i];
    if (quote == '\0' && separates(c)) {
      in_word = false;
      continue;
    }
    if (!std::exchange(in_word, true)) words.emplace_back();
    if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
    } else if (quote != '\0' && c == quote) {
      quote = '\0';
    } else {
      if (c == '\\') {
        if (++i == query.size()) return std::nullopt;
        c = query[i];
      }
      words.back() += c;
    }
  }
  if (quote != '\0') return std::nullopt;
  return words;
}

bool is_redis_reader(std::string_view command) {
  return std::ranges::any_of(kReaders, [command](std::string_view known) { return iequals(known, command); });
}

std::string redis_readers() {
  std::string all;
  for (const auto name : kReaders) all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

}  // namespace pen::map
