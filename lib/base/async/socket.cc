#include "lib/base/async/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "lib/base/async/stream_impl.h"

namespace pen::async {
namespace {

std::atomic<int> tcp_window{0};

struct RawAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  Fd directory;  // keeps the short form of a long Unix path valid
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Result<RawAddress> raw_unix(const std::string& path) {
  RawAddress raw;
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  std::string shown = path;
  if (shown.size() >= sizeof un.sun_path) {
    // A socket address holds a path of 107 bytes; an instance may lie deeper than that.
    const auto slash = path.rfind('/');
    if (slash == std::string::npos) return fail_errno(path, ENAMETOOLONG);
    raw.directory = Fd(::open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!raw.directory) return fail_errno(path);
    shown = "/proc/self/fd/" + std::to_string(raw.directory.get()) + path.substr(slash);
    if (shown.size() >= sizeof un.sun_path) return fail_errno(path, ENAMETOOLONG);
  }
  std::memcpy(un.sun_path, shown.c_str(), shown.size() + 1);
  std::memcpy(&raw.storage, &un, sizeof un);
  raw.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + shown.size() + 1);
  return raw;
}

Result<RawAddress> raw_address(const SocketAddress& at) {
  if (at.is_unix()) return raw_unix(at.path);
  RawAddress raw;
  if (at.is_ipv6()) {
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(at.port);
    std::string host = at.host;
    if (const auto percent = host.find('%'); percent != std::string::npos) {
      in6.sin6_scope_id = static_cast<std::uint32_t>(std::strtoul(host.c_str() + percent + 1, nullptr, 10));
      host.resize(percent);
    }
    if (::inet_pton(AF_INET6, host.c_str(), &in6.sin6_addr) != 1) return fail_errno(at.text(), EINVAL);
    std::memcpy(&raw.storage, &in6, sizeof in6);
    raw.size = sizeof in6;
  } else {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(at.port);
    if (::inet_pton(AF_INET, at.host.c_str(), &in.sin_addr) != 1) return fail_errno(at.text(), EINVAL);
    std::memcpy(&raw.storage, &in, sizeof in);
    raw.size = sizeof in;
  }
  return raw;
}

Result<SocketAddress> cooked(const sockaddr_storage& storage, socklen_t size) {
  char text[INET6_ADDRSTRLEN] = {};
  switch (storage.ss_family) {
    case AF_INET: {
      sockaddr_in in{};
      std::memcpy(&in, &storage, sizeof in);
      ::inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
      return SocketAddress::inet(text, ntohs(in.sin_port));
    }
    case AF_INET6: {
      sockaddr_in6 in6{};
      std::memcpy(&in6, &storage, sizeof in6);
      if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
        ::inet_ntop(AF_INET, reinterpret_cast<const char*>(&in6.sin6_addr) + 12, text, sizeof text);
      } else {
        ::inet_ntop(AF_INET6, &in6.sin6_addr, text, sizeof text);
      }
      return SocketAddress::inet(text, ntohs(in6.sin6_port));
    }
    case AF_UNIX: {
      sockaddr_un un{};
      std::memcpy(&un, &storage, std::min<std::size_t>(size, sizeof un));
      std::string path(un.sun_path, ::strnlen(un.sun_path, sizeof un.sun_path));
      return SocketAddress::unix(path.empty() ? "unix" : std::move(path));
    }
    default:
      return fail_errno("address family", EAFNOSUPPORT);
  }
}

// The Stream waits for the connection: it has the readiness.
struct Connecting {
  Stream stream;
  bool waits = false;
};

Result<Connecting> start(Loop& loop, const SocketAddress& to, const std::string& source) {
  PEN_TRY_ASSIGN(RawAddress address, raw_address(to));
  Fd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("socket");
  if (!to.is_unix()) {
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    PEN_TRY(limit_tcp_window(fd.get()));
    if (!source.empty()) {
      PEN_TRY_ASSIGN(RawAddress from, raw_address(SocketAddress::inet(source, 0)));
      ::setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
      if (::bind(fd.get(), from.get(), from.size) != 0) return fail_errno("bind to " + source);
    }
  }
  bool waits = false;
  if (::connect(fd.get(), address.get(), address.size) != 0) {
    if (errno != EINPROGRESS) return fail_errno("connect to " + to.text());
    waits = true;
  }
  return Connecting{Stream(loop, std::move(fd)), waits};
}

}  // namespace

std::string SocketAddress::text() const {
  if (is_unix()) return path;
  return "[" + host + "]:" + std::to_string(port);
}

Task<Result<Stream>> connect(Loop& loop, SocketAddress to, Until until, std::string source) {
  for (;;) {
    auto connecting = start(loop, to, source);
    if (!connecting) {
      // The backlog of a Unix socket is full. No event says when it has room, so try again after a while.
      if (!connecting.error().is_errno(EAGAIN)) co_return fail(std::move(connecting).error());
      PEN_CO_TRY(co_await loop.sleep(milliseconds(16), until));
      continue;
    }
    if (connecting->waits) {
      Stream::Impl& s = StreamAccess::impl(connecting->stream);
      s.connecting = true;
      s.write_armed = true;
      if (const int rc = s.poll.want_write(s.fd.get()); rc != 0) co_return fail_errno("watch", rc);
      PEN_CO_TRY((co_await OutputAwaiter{s, until, detail::Waiter(loop)}));
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(s.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) co_return fail_errno("connect to " + to.text(), error);
    }
    co_return std::move(connecting->stream);
  }
}

void set_tcp_window(int bytes) { tcp_window.store(bytes, std::memory_order_relaxed); }

Result<void> limit_tcp_window(int fd) {
  const int bytes = tcp_window.load(std::memory_order_relaxed);
  if (bytes == 0) return {};
  for (const int buffer : {SO_SNDBUF, SO_RCVBUF})
    if (::setsockopt(fd, SOL_SOCKET, buffer, &bytes, sizeof bytes) != 0) return fail_errno("tcp_windowsize");
  return {};
}

Result<SocketAddress> peer_address(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return fail_errno("getpeername");
  return cooked(storage, size);
}

Result<SocketAddress> local_address(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return fail_errno("getsockname");
  return cooked(storage, size);
}

Result<PeerCredentials> peer_credentials(int fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return fail_errno("peer credentials");
  return PeerCredentials{static_cast<unsigned>(credentials.pid), credentials.uid, credentials.gid};
}

Result<Fd> listen_on(const SocketAddress& at, int backlog) {
  PEN_TRY_ASSIGN(RawAddress address, raw_address(at));
  Fd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("socket");
  const int on = 1;
  if (!at.is_unix()) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (at.is_ipv6()) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (!at.is_unix()) {
    PEN_TRY(limit_tcp_window(fd.get()));
  }
  if (::bind(fd.get(), address.get(), address.size) != 0) {
    if (errno != EADDRINUSE || !at.is_unix()) return fail_errno("bind " + at.text());
    // A link was left there by somebody who chose its target: neither a server at the target counts nor that there is
    // none.
    struct stat there{};
    const bool is_link = ::lstat(at.path.c_str(), &there) == 0 && S_ISLNK(there.st_mode);
    Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!probe) return fail_errno("socket");
    if (!is_link && (::connect(probe.get(), address.get(), address.size) == 0 || errno != ECONNREFUSED)) {
      return fail_errno("bind " + at.text(), EADDRINUSE);
    }
    if (::unlink(at.path.c_str()) != 0) return fail_errno("replace " + at.path);
    if (::bind(fd.get(), address.get(), address.size) != 0) return fail_errno("bind " + at.text());
  }
  if (::listen(fd.get(), backlog) != 0) return fail_errno("listen on " + at.text());
  return fd;
}

}  // namespace pen::async
