#include "lib/map/memcache_reply.h"

#include <algorithm>
#include <optional>

#include "lib/base/text.h"

namespace pen::map {
namespace {

using State = MemcacheReply::State;

constexpr std::string_view kLineEnd = "\r\n";

/// The line at the start of rest, which loses it; nullopt and reply filled: there is none yet, or it is too long.
std::optional<std::string_view> line_of(std::string_view& rest, std::size_t most, MemcacheReply& reply) {
  const auto end = rest.find(kLineEnd);
  // Without a line end yet, the last byte may be the first one of it.
  if (end == std::string_view::npos ? rest.size() > most + 1 : end > most) {
    reply = {State::too_large, "a line of the reply is beyond line_size_limit"};
    return std::nullopt;
  }
  if (end == std::string_view::npos) return std::nullopt;
  const auto line = rest.substr(0, end);
  rest.remove_prefix(end + kLineEnd.size());
  return line;
}

/// The next word of a line, which loses it.
std::string_view word_of(std::string_view& line) {
  const auto word = line.substr(0, line.find(' '));
  line.remove_prefix(std::min(line.size(), word.size() + 1));
  return word;
}

bool is_refusal(std::string_view line) {
  return line == "ERROR" || line.starts_with("SERVER_ERROR") || line.starts_with("CLIENT_ERROR");
}

/// A reply that ends with its last line.
MemcacheReply ending(std::string_view rest, State state, std::string_view text) {
  if (!rest.empty()) return {State::malformed, "more than one reply"};
  return {state, text};
}

}  // namespace

bool is_memcache_key(std::string_view key) {
  const auto bad = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 127; };
  return !key.empty() && key.size() <= kMaxMemcacheKey && std::ranges::none_of(key, bad);
}

std::string memcache_get(std::string_view key) { return "get " + std::string(key) + "\r\n"; }

std::string memcache_set(std::string_view key, std::string_view value, std::uint32_t flags, std::uint32_t ttl) {
  std::string out = "set ";
  out += key;
  for (const std::size_t number : {std::size_t{flags}, std::size_t{ttl}, value.size()})
    out += " " + std::to_string(number);
  out += kLineEnd;
  out += value;
  return out += kLineEnd;
}

MemcacheReply read_memcache_get(std::string_view bytes, std::string_view key, const MemcacheReply::Limits& limits) {
  MemcacheReply reply;
  const auto line = line_of(bytes, limits.line, reply);
  if (!line) return reply;
  if (*line == "END") return ending(bytes, State::miss, {});
  if (is_refusal(*line)) return ending(bytes, State::refused, *line);
  std::string_view rest = *line;
  if (word_of(rest) != "VALUE") return {State::malformed, "neither a value nor END"};
  if (word_of(rest) != key) return {State::malformed, "the value of another key"};
  const auto flags = parse_unsigned(word_of(rest)), size = parse_unsigned(word_of(rest));
  if (!flags || !size) return {State::malformed, "a value without its size"};
  if (*size > limits.data) return {State::too_large, "the value is beyond data_size_limit"};
  const auto length = static_cast<std::size_t>(*size);
  if (bytes.size() < length + kLineEnd.size()) return reply;
  const auto value = bytes.substr(0, length);
  bytes.remove_prefix(length);
  if (!bytes.starts_with(kLineEnd)) return {State::malformed, "the value has another size"};
  bytes.remove_prefix(kLineEnd.size());
  const auto last = line_of(bytes, limits.line, reply);
  if (!last) return reply;
  if (*last != "END") return {State::malformed, "no END behind the value"};
  return ending(bytes, State::hit, value);
}

MemcacheReply read_memcache_set(std::string_view bytes, const MemcacheReply::Limits& limits) {
  MemcacheReply reply;
  const auto line = line_of(bytes, limits.line, reply);
  if (!line) return reply;
  if (*line == "STORED") return ending(bytes, State::stored, {});
  if (is_refusal(*line) || *line == "NOT_STORED") return ending(bytes, State::refused, *line);
  return {State::malformed, "not an answer to set"};
}

}  // namespace pen::map
