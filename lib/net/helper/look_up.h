#pragma once
/// The addresses of a server, and a connection to it, for threads that may wait.
///
/// Use:     auto ways = helper::look_up(server);  auto fd = helper::reach_blocking(server, deadline);
/// Rules:   one address after the other, kMostWays at most; each gets an equal part of the time that is left, so that
///          one that swallows packets leaves time for the next.
/// Errors:  no_address if a name has none; of a connection those of the last address: ETIMEDOUT, ECONNREFUSED, …
/// Thread:  any.
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/net/helper/server_address.h"

namespace pen::helper {

inline constexpr std::size_t kMostWays = 8;

enum class HelperError { no_address = 1 };
inline std::string_view error_module(HelperError) { return "server"; }
std::string_view describe(HelperError e);

/// When the address must have answered of which `left` remain, itself included.
SteadyTime share_of(SteadyTime now, SteadyTime deadline, std::size_t left);

/// ServerAddress::ways(), or what the host's resolver says of the name, in its order. Blocks as long as the resolver
/// takes.
Result<std::vector<async::SocketAddress>> look_up(const ServerAddress& server);

/// A connected socket that does not block. Blocks until the deadline at most, and for the resolver.
Result<Fd> reach_blocking(const ServerAddress& server, SteadyTime deadline);

}  // namespace pen::helper
