#include "lib/send/mailbox/request.h"

#include <algorithm>
#include <limits>

#include "lib/base/check.h"

namespace pen::mailbox {
namespace {

constexpr std::string_view kMark = "PEN\1";

void put(std::string& out, std::uint32_t number) {
  for (unsigned i = 0; i < 4; ++i) out += static_cast<char>(number >> (8 * i) & 0xff);
}

std::uint32_t take(std::string_view& bytes) {
  std::uint32_t number = 0;
  for (unsigned i = 0; i < 4; ++i) number |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  bytes.remove_prefix(4);
  return number;
}

struct Codes {
  int least, most;
};
Codes codes_of(CommandEnd::Kind kind) {
  using Kind = CommandEnd::Kind;
  switch (kind) {
    case Kind::exited:
      return {0, 255};
    case Kind::signalled:
      return {1, 127};
    case Kind::time_limit:
      return {0, 0};
    case Kind::not_executed:
    case Kind::not_started:
      return {1, kLargestErrno};
  }
  return {1, 0};
}

}  // namespace

std::string encode_request(const Request& request) {
  PEN_CHECK(request.name.size() <= kMaxAccountName);
  std::string out(kMark);
  put(out, static_cast<std::uint32_t>(request.kind));
  put(out, request.uid);
  put(out, request.gid);
  out += request.name;
  out.resize(kRequestBytes, '\0');
  return out;
}

std::optional<Request> parse_request(std::string_view bytes) {
  if (bytes.size() != kRequestBytes || !bytes.starts_with(kMark)) return std::nullopt;
  bytes.remove_prefix(kMark.size());
  Request out;
  const std::uint32_t kind = take(bytes);
  if (kind < static_cast<std::uint32_t>(Request::Kind::worker) ||
      kind > static_cast<std::uint32_t>(Request::Kind::connection))
    return std::nullopt;
  out.kind = static_cast<Request::Kind>(kind);
  out.uid = take(bytes);
  out.gid = take(bytes);
  const auto end = bytes.find('\0');
  if (end == std::string_view::npos || bytes.find_first_not_of('\0', end) != std::string_view::npos)
    return std::nullopt;
  out.name = bytes.substr(0, end);
  return out;
}

std::string encode_command_end(const CommandEnd& end) {
  std::string out(kMark);
  put(out, static_cast<std::uint32_t>(end.kind));
  put(out, static_cast<std::uint32_t>(end.code));
  put(out, static_cast<std::uint32_t>(end.pid));
  return out;
}

std::optional<CommandEnd> parse_command_end(std::string_view bytes) {
  using Kind = CommandEnd::Kind;
  if (bytes.size() != kCommandEndBytes || !bytes.starts_with(kMark)) return std::nullopt;
  bytes.remove_prefix(kMark.size());
  const std::uint32_t kind = take(bytes), code = take(bytes), pid = take(bytes);
  if (kind < static_cast<std::uint32_t>(Kind::exited) || kind > static_cast<std::uint32_t>(Kind::not_started) ||
      pid > static_cast<std::uint32_t>(std::numeric_limits<pid_t>::max()))
    return std::nullopt;
  const CommandEnd out{.kind = static_cast<Kind>(kind), .code = static_cast<int>(code), .pid = static_cast<pid_t>(pid)};
  const auto [least, most] = codes_of(out.kind);
  const bool fits = out.code >= least && out.code <= most && (out.kind == Kind::not_started) == (out.pid == 0);
  return fits ? std::optional(out) : std::nullopt;
}

}  // namespace pen::mailbox
