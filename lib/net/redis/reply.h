#pragma once
/// The redis wire format: encodes commands, decodes replies. hiredis does both. Nothing else of hiredis is used: its
/// asynchronous client blocks on name look-ups, and aborts at an unexpected reply.
///
/// Use:     stream.write(format_command({"GET", key}));
///          reader.feed(bytes);  while (auto r = reader.next(); r && *r) use(**r);
/// Bounds:  a reply comes from outside: at most kMaxReply bytes, kMaxItems values in all (nested ones counted), seven
///          levels. A larger or malformed reply is an error, after which the connection must be closed.
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

enum class RedisError { malformed = 1, too_large, unasked, refused, no_answer, closed, bad_server, untrusted };
inline std::string_view error_module(RedisError) { return "redis"; }
std::string_view describe(RedisError e);

struct Reply {
  enum class Kind : std::uint8_t { nil, integer, text, status, error, array };
  Kind kind = Kind::nil;
  std::int64_t integer = 0;
  std::string text;  // for text, status and error
  std::vector<Reply> items;
};

inline constexpr std::size_t kMaxReply = 256 * 1024;
inline constexpr std::size_t kMaxItems = 1024;

/// What EVALSHA calls a script by: of a reply to SCRIPT LOAD; nullopt: it is no such reply.
std::optional<std::string> script_name(const Reply& reply);

/// One command with its arguments, which may hold any bytes.
std::string format_command(const std::vector<std::string>& words);

class ReplyReader {
 public:
  ReplyReader();
  ~ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  void feed(std::string_view bytes);
  /// nullopt: the reply is incomplete. Errors: malformed, too_large; then all further calls fail.
  Result<std::optional<Reply>> next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pen::redis
