#pragma once
/// The text protocol of memcached, as far as tables need it: "get" and "set" of one key.
///
/// Use:     send(memcache_get(key));  auto reply = read_memcache_get(got, key, limits);   // until it is not incomplete
/// Bounds:  a line has at most Limits::line bytes, a value at most Limits::data: more is too_large at once, before it
///          is waited for.
/// Strict:  a value under another key, or bytes behind the end, are malformed: they would be another question's answer.
/// Source:  memcached, doc/protocol.txt. Pure; any thread.
#include <cstdint>
#include <string>
#include <string_view>

namespace pen::map {

inline constexpr std::size_t kMaxMemcacheKey = 250;
/// Whether the server can have such a key: not empty, not too long, without blanks and controls.
bool is_memcache_key(std::string_view key);

std::string memcache_get(std::string_view key);
std::string memcache_set(std::string_view key, std::string_view value, std::uint32_t flags, std::uint32_t ttl);

struct MemcacheReply {
  enum class State {
    incomplete,
    hit,        // of get
    miss,       // of get
    stored,     // of set
    refused,    // text: what the server said
    malformed,  // text: what is wrong
    too_large,  // text: what is
  };
  struct Limits {
    std::size_t line = 1024, data = 10240;
  };
  State state = State::incomplete;
  std::string_view text;  // of a hit: the value; a view into the bytes
};
MemcacheReply read_memcache_get(std::string_view bytes, std::string_view key, const MemcacheReply::Limits& limits);
MemcacheReply read_memcache_set(std::string_view bytes, const MemcacheReply::Limits& limits);

}  // namespace pen::map
