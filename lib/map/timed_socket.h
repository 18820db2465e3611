#pragma once
/// A connection to a server whose every step has a deadline, for threads that may wait.
///
/// Use:     auto fd = connect_before(server, deadline);
///          send_before(fd->get(), request, deadline);  receive_before(fd->get(), buffer, deadline);
/// Errors:  unreadable; with ETIMEDOUT after the deadline, with another errno or the resolver's words otherwise.
/// Limits:  the look-up of a host name has the resolver's own time limit.
/// Thread:  any; one at a time for each connection.
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/map/map.h"
#include "lib/net/helper/server_address.h"

namespace pen::map {

Result<void> wait_readable_before(int fd, SteadyTime deadline);
Result<void> wait_writable_before(int fd, SteadyTime deadline);
Result<Fd> connect_before(const helper::ServerAddress& server, SteadyTime deadline);
Result<void> send_before(int fd, std::string_view bytes, SteadyTime deadline);
/// Waits for at least one byte. Returns how many came; 0: the server closed the connection.
Result<std::size_t> receive_before(int fd, std::span<char> buffer, SteadyTime deadline);

// For callers that do not wait. The socket must not block.
/// Sends what goes, and takes it off.
Result<void> send_now(int fd, std::string& unsent);
/// How many bytes came; nullopt: none so far; 0: the server closed the connection.
Result<std::optional<std::size_t>> receive_now(int fd, std::span<char> buffer);

}  // namespace pen::map
