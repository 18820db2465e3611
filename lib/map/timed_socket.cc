#include "lib/map/timed_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "lib/net/helper/look_up.h"

namespace pen::map {
namespace {

Result<void> wait_for(int fd, short events, SteadyTime deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - system_clock().now()).count();
    pollfd p{fd, events, 0};
    const int n = left > 0 ? ::poll(&p, 1, static_cast<int>(left)) : 0;
    if (n > 0) return {};
    if (n == 0) return fail(MapError::unreadable, "no answer", ETIMEDOUT);
    if (errno != EINTR) return fail(MapError::unreadable, "poll", errno);
  }
}

}  // namespace

Result<void> wait_readable_before(int fd, SteadyTime deadline) { return wait_for(fd, POLLIN, deadline); }
Result<void> wait_writable_before(int fd, SteadyTime deadline) { return wait_for(fd, POLLOUT, deadline); }

Result<Fd> connect_before(const helper::ServerAddress& server, SteadyTime deadline) {
  auto fd = helper::reach_blocking(server, deadline);
  if (fd) return fd;
  const Error& error = fd.error();
  if (error.is(helper::HelperError::no_address)) return fail(MapError::unreadable, error.context());
  return fail(MapError::unreadable, "connect", error.sys_errno());
}

Result<void> send_before(int fd, std::string_view bytes, SteadyTime deadline) {
  while (!bytes.empty()) {
    const auto n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) {
      PEN_TRY(wait_for(fd, POLLOUT, deadline));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(MapError::unreadable, "send", errno);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<std::size_t> receive_before(int fd, std::span<char> buffer, SteadyTime deadline) {
  for (;;) {
    const auto n = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno == EAGAIN) {
      PEN_TRY(wait_for(fd, POLLIN, deadline));
    } else if (errno != EINTR) {
      return fail(MapError::unreadable, "receive", errno);
    }
  }
}

Result<void> send_now(int fd, std::string& unsent) {
  std::string_view left = unsent;
  int problem = 0;
  while (!left.empty() && problem == 0) {
    const auto n = ::send(fd, left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      left.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      problem = errno;
    }
  }
  unsent.erase(0, unsent.size() - left.size());
  if (problem != 0 && problem != EAGAIN) return fail(MapError::unreadable, "send", problem);
  return {};
}

Result<std::optional<std::size_t>> receive_now(int fd, std::span<char> buffer) {
  for (;;) {
    const auto n = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno == EAGAIN) return std::nullopt;
    if (errno != EINTR) return fail(MapError::unreadable, "receive", errno);
  }
}

}  // namespace pen::map
