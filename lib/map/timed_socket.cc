#include "lib/map/timed_socket.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "lib/base/tcp_port.h"

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

Result<Fd> connect_one(int family, const sockaddr* address, socklen_t size, SteadyTime deadline) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail(MapError::unreadable, "socket", errno);
  if (::connect(fd.get(), address, size) == 0) return fd;
  if (errno != EINPROGRESS) return fail(MapError::unreadable, "connect", errno);
  PEN_TRY(wait_for(fd.get(), POLLOUT, deadline));
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return fail(MapError::unreadable, "connect", error);
  return fd;
}

}  // namespace

std::optional<ServerAddress> parse_host_port(std::string_view text, std::string_view default_port) {
  ServerAddress server;
  const bool bracket = text.starts_with('[') && text.ends_with(']');
  const auto colon = bracket ? std::string_view::npos : text.rfind(':');
  auto host = text.substr(0, colon);
  server.port = colon == std::string_view::npos ? default_port : text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  server.host = host;
  if (host.empty() || server.port.empty()) return std::nullopt;
  return server;
}

std::optional<ServerAddress> parse_server(std::string_view text, std::string_view default_port) {
  if (text.starts_with("unix:/")) return ServerAddress{std::string(text.substr(5)), {}, {}};
  if (text.starts_with("unix:")) return std::nullopt;
  if (text.starts_with("inet:")) text.remove_prefix(5);
  return parse_host_port(text, default_port);
}

std::string port_number(const std::string& port) {
  const auto number = tcp_port(port);
  return number ? std::to_string(*number) : port;
}

Result<void> wait_readable_before(int fd, SteadyTime deadline) { return wait_for(fd, POLLIN, deadline); }
Result<void> wait_writable_before(int fd, SteadyTime deadline) { return wait_for(fd, POLLOUT, deadline); }

Result<Fd> connect_before(const ServerAddress& server, SteadyTime deadline) {
  if (!server.path.empty()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (server.path.size() >= sizeof address.sun_path) return fail(MapError::bad_spec, server.path, ENAMETOOLONG);
    std::memcpy(address.sun_path, server.path.c_str(), server.path.size() + 1);
    return connect_one(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address, deadline);
  }
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int code = ::getaddrinfo(server.host.c_str(), port_number(server.port).c_str(), &hints, &found); code != 0)
    return fail(MapError::unreadable, server.host + ":" + server.port + ": " + ::gai_strerror(code));
  Result<Fd> connected = fail(MapError::unreadable, "connect", EHOSTUNREACH);
  for (const addrinfo* at = found; at != nullptr && !connected; at = at->ai_next)
    connected = connect_one(at->ai_family, at->ai_addr, at->ai_addrlen, deadline);
  ::freeaddrinfo(found);
  return connected;
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
