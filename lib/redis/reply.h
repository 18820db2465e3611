#pragma once
/// Redis on the wire: commands to bytes, bytes to replies. hiredis does both; nothing else of it is used, because its
/// asynchronous client looks names up while everybody waits, and aborts at a reply that nobody asked for.
///
/// Use:     stream.write(format_command({"GET", key}));
///          reader.feed(bytes);  while (auto r = reader.next(); r && *r) use(**r);
/// Bounds:  a reply is what somebody else says: kMaxReply bytes, kMaxItems values in all (nested ones counted), seven
///          levels. What is larger, or no reply at all, is an error, after which the connection has to be closed.
/// Source:  RESP2, as Redis documents it.
/// Pure; any thread.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace pen::redis {

enum class RedisError { malformed = 1, too_large, unasked, refused, no_answer, closed, bad_server };
inline std::string_view error_module(RedisError) { return "redis"; }
std::string_view describe(RedisError e);

struct Reply {
  enum class Kind : std::uint8_t { nil, integer, text, status, error, array };
  Kind kind = Kind::nil;
  std::int64_t integer = 0;
  std::string text;  // of text, status and error
  std::vector<Reply> items;
};

inline constexpr std::size_t kMaxReply = 256 * 1024;
inline constexpr std::size_t kMaxItems = 1024;

/// One command with its arguments, which may hold any bytes.
std::string format_command(const std::vector<std::string>& words);

class ReplyReader {
 public:
  ReplyReader();
  ~ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  void feed(std::string_view bytes);
  /// nullopt: it is not whole yet. Errors: malformed, too_large; then for ever.
  Result<std::optional<Reply>> next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pen::redis
