/// Asks a table server and waits for the answer, for programs and threads without a loop.
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "lib/map/source.h"

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

Result<Fd> connect_to(const ServerSource::Address& server, SteadyTime deadline) {
  if (!server.path.empty()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (server.path.size() >= sizeof address.sun_path) return fail(MapError::bad_spec, server.path, ENAMETOOLONG);
    std::memcpy(address.sun_path, server.path.c_str(), server.path.size() + 1);
    return connect_one(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address, deadline);
  }
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int code = ::getaddrinfo(server.host.c_str(), server.port.c_str(), &hints, &found); code != 0)
    return fail(MapError::unreadable, server.host + ":" + server.port + ": " + ::gai_strerror(code));
  Result<Fd> connected = fail(MapError::unreadable, "connect", EHOSTUNREACH);
  for (const addrinfo* at = found; at != nullptr && !connected; at = at->ai_next)
    connected = connect_one(at->ai_family, at->ai_addr, at->ai_addrlen, deadline);
  ::freeaddrinfo(found);
  return connected;
}

}  // namespace

Result<bool> ServerSource::complete(std::string_view bytes) const {
  const std::size_t size = whole(bytes);
  if (size == std::string::npos || bytes.size() > kMaxReply)
    return fail(MapError::syntax, name() + ": not an answer of this protocol");
  if (size != 0 && size != bytes.size()) return fail(MapError::syntax, name() + ": more than one answer");
  return size != 0;
}

Value ServerSource::ask_now(const std::string& key) const {
  const auto deadline = system_clock().now() + kPatience;
  const std::string question = request(key);
  // An idle connection that turns out to be dead is replaced once.
  if (Fd idle = take_idle()) {
    if (auto answer = talk(std::move(idle), question, deadline)) return meaning(*answer);
  }
  auto fresh = connect_to(address_, deadline);
  if (!fresh) return std::unexpected(std::move(fresh).error().within(name()));
  PEN_TRY_ASSIGN(const auto answer, talk(*std::move(fresh), question, deadline));
  return meaning(answer);
}

Fd ServerSource::take_idle() const {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return Fd();
  Fd fd = std::move(idle_.back());
  idle_.pop_back();
  return fd;
}

Result<std::string> ServerSource::talk(Fd fd, std::string_view request, SteadyTime deadline) const {
  while (!request.empty()) {
    const auto n = ::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) {
      PEN_TRY(wait_for(fd.get(), POLLOUT, deadline));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(MapError::unreadable, "send", errno);
    request.remove_prefix(static_cast<std::size_t>(n));
  }
  std::string got;
  for (;;) {
    char chunk[4096];
    const auto n = ::recv(fd.get(), chunk, sizeof chunk, 0);
    if (n < 0 && errno == EAGAIN) {
      PEN_TRY(wait_for(fd.get(), POLLIN, deadline));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(MapError::unreadable, "receive", errno);
    if (n == 0) return fail(MapError::unreadable, name() + ": the server closed the connection");
    got.append(chunk, static_cast<std::size_t>(n));
    PEN_TRY_ASSIGN(const bool all, complete(got));
    if (!all) continue;
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kMaxIdle) idle_.push_back(std::move(fd));
    return got;
  }
}

}  // namespace pen::map
