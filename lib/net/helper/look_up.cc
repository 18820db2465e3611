#include "lib/net/helper/look_up.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>

namespace pen::helper {
namespace {

struct Socket {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

/// Of a numeric address or a path that is short enough.
Result<Socket> socket_address(const async::SocketAddress& at) {
  Socket out;
  if (at.is_unix()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (at.path.size() >= sizeof address.sun_path) return fail_errno(at.path, ENAMETOOLONG);
    std::memcpy(address.sun_path, at.path.c_str(), at.path.size() + 1);
    std::memcpy(&out.storage, &address, sizeof address);
    out.size = sizeof address;
    return out;
  }
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  if (::getaddrinfo(at.host.c_str(), std::to_string(at.port).c_str(), &hints, &found) != 0)
    return fail(HelperError::no_address, at.host);
  std::memcpy(&out.storage, found->ai_addr, found->ai_addrlen);
  out.size = found->ai_addrlen;
  ::freeaddrinfo(found);
  return out;
}

Result<Fd> connect_before(const async::SocketAddress& at, SteadyTime deadline) {
  PEN_TRY_ASSIGN(const Socket to, socket_address(at));
  Fd fd(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno("socket");
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.size) == 0) return fd;
  if (errno != EINPROGRESS) return fail_errno("connect");
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - system_clock().now()).count();
    pollfd p{fd.get(), POLLOUT, 0};
    const int n = left > 0 ? ::poll(&p, 1, static_cast<int>(std::min<std::int64_t>(left, 1 << 30))) : 0;
    if (n > 0) break;
    if (n == 0) return fail_errno("connect", ETIMEDOUT);
    if (errno != EINTR) return fail_errno("poll");
  }
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return fail_errno("connect", error);
  return fd;
}

}  // namespace

std::string_view describe(HelperError e) {
  switch (e) {
    case HelperError::no_address:
      return "no address";
  }
  return "unknown";
}

SteadyTime share_of(SteadyTime now, SteadyTime deadline, std::size_t left) {
  return now + (deadline - now) / static_cast<std::int64_t>(left);
}

Result<std::vector<async::SocketAddress>> look_up(const ServerAddress& server) {
  if (!server.has_name()) return server.ways();
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  if (const int code = ::getaddrinfo(server.host.c_str(), nullptr, &hints, &list); code != 0)
    return fail(HelperError::no_address, server.host + ": " + ::gai_strerror(code));
  std::vector<async::SocketAddress> out;
  for (const addrinfo* a = list; a != nullptr && out.size() < kMostWays; a = a->ai_next) {
    char text[NI_MAXHOST] = "";
    if (::getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      out.push_back(async::SocketAddress::inet(text, server.port));
  }
  ::freeaddrinfo(list);
  if (out.empty()) return fail(HelperError::no_address, server.host);
  return out;
}

Result<Fd> reach_blocking(const ServerAddress& server, SteadyTime deadline) {
  PEN_TRY_ASSIGN(const auto ways, look_up(server));
  for (std::size_t i = 0;; ++i) {
    auto connected = connect_before(ways[i], share_of(system_clock().now(), deadline, ways.size() - i));
    if (connected || i + 1 == ways.size()) return connected;
  }
}

}  // namespace pen::helper
