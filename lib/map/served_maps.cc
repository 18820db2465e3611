/// Tables that another process serves: socketmap (netstrings) and tcp (lines).
///
/// Bounds:  kPatience for each answer, kMaxReply bytes of it; kMaxIdle connections kept for the next look-up.
/// Source:  socketmap_table(5), tcp_table(5).
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "lib/async/fd.h"
#include "lib/base/text.h"
#include "lib/map/types.h"

namespace pen::map {
namespace {

using Steady = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{30};
constexpr std::size_t kMaxReply = 100'000;
constexpr std::size_t kMaxIdle = 16;

Result<void> wait_for(int fd, short events, Steady::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Steady::now()).count();
    pollfd p{fd, events, 0};
    const int n = left > 0 ? ::poll(&p, 1, static_cast<int>(left)) : 0;
    if (n > 0) return {};
    if (n == 0) return fail(MapError::unreadable, "no answer", ETIMEDOUT);
    if (errno != EINTR) return fail(MapError::unreadable, "poll", errno);
  }
}

/// Where a server is: "unix:/path", or "inet:host:port" / "host:port".
struct Server {
  std::string path, host, port;
};

Result<async::Fd> connect_one(int family, const sockaddr* address, socklen_t size,
                              Steady::time_point deadline) {
  async::Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
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

Result<async::Fd> connect_to(const Server& server, Steady::time_point deadline) {
  if (!server.path.empty()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (server.path.size() >= sizeof address.sun_path)
      return fail(MapError::bad_spec, server.path, ENAMETOOLONG);
    std::memcpy(address.sun_path, server.path.c_str(), server.path.size() + 1);
    return connect_one(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address,
                       deadline);
  }
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int code = ::getaddrinfo(server.host.c_str(), server.port.c_str(), &hints, &found);
      code != 0)
    return fail(MapError::unreadable,
                server.host + ":" + server.port + ": " + ::gai_strerror(code));
  Result<async::Fd> connected = fail(MapError::unreadable, "connect", EHOSTUNREACH);
  for (const addrinfo* at = found; at != nullptr && !connected; at = at->ai_next)
    connected = connect_one(at->ai_family, at->ai_addr, at->ai_addrlen, deadline);
  ::freeaddrinfo(found);
  return connected;
}

class ServedMap : public Map {
 public:
  ServedMap(std::string spec, Server server) : Map(std::move(spec)), server_(std::move(server)) {}
  bool blocking() const override { return true; }

 protected:
  /// Sends the request and reads until whole() of what has come is not 0, which is how many bytes the answer is; a
  /// connection that was idle and turns out to be dead is replaced once.
  Result<std::string> ask(const std::string& request) {
    const auto deadline = Steady::now() + kPatience;
    if (async::Fd idle = take_idle()) {
      if (auto answer = talk(std::move(idle), request, deadline)) return answer;
    }
    auto fresh = connect_to(server_, deadline);
    if (!fresh) return std::unexpected(std::move(fresh).error().within(name()));
    return talk(*std::move(fresh), request, deadline);
  }
  /// How many bytes at the start of `bytes` are the answer: 0: not all of it is there; npos: it is none.
  virtual std::size_t whole(std::string_view bytes) const = 0;

 private:
  async::Fd take_idle() {
    std::lock_guard lock(mutex_);
    if (idle_.empty()) return async::Fd();
    async::Fd fd = std::move(idle_.back());
    idle_.pop_back();
    return fd;
  }

  Result<std::string> talk(async::Fd fd, std::string_view request, Steady::time_point deadline) {
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
      const std::size_t size = whole(got);
      if (size == std::string::npos || got.size() > kMaxReply)
        return fail(MapError::syntax, name() + ": no answer of this protocol");
      if (size != 0) {
        if (size != got.size()) return fail(MapError::syntax, name() + ": more than one answer");
        std::lock_guard lock(mutex_);
        if (idle_.size() < kMaxIdle) idle_.push_back(std::move(fd));
        return got;
      }
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
    }
  }

  Server server_;
  std::mutex mutex_;
  std::vector<async::Fd> idle_;
};

/// "SIZE:bytes,": the size of all of it; 0: not all is there; npos: none.
std::size_t netstring(std::string_view bytes, std::string_view& content) {
  const auto colon = bytes.find(':');
  if (colon == std::string_view::npos) return bytes.size() < 8 ? 0 : std::string::npos;
  const auto size = parse_unsigned(bytes.substr(0, colon));
  if (!size || *size > kMaxReply) return std::string::npos;
  const std::size_t end = colon + 1 + static_cast<std::size_t>(*size);
  if (bytes.size() <= end) return 0;
  if (bytes[end] != ',') return std::string::npos;
  content = bytes.substr(colon + 1, end - colon - 1);
  return end + 1;
}

class SocketMap final : public ServedMap {
 public:
  SocketMap(std::string spec, Server server, std::string table)
      : ServedMap(std::move(spec), std::move(server)), table_(std::move(table)) {}
  Value lookup(std::string_view key) override {
    if (key.size() > kMaxKey) return std::nullopt;
    const std::string request = table_ + " " + std::string(key);
    PEN_TRY_ASSIGN(const auto answer, ask(std::to_string(request.size()) + ":" + request + ","));
    std::string_view content;
    (void)netstring(answer, content);
    const auto word = content.substr(0, content.find(' '));
    const auto rest = content.size() > word.size() ? content.substr(word.size() + 1) : "";
    if (word == "OK") return std::string(rest);
    if (word == "NOTFOUND") return std::nullopt;
    return fail(MapError::unreadable, name() + ": " + printable(content, 200));
  }

 private:
  std::size_t whole(std::string_view bytes) const override {
    std::string_view content;
    return netstring(bytes, content);
  }
  std::string table_;
};

/// Everything but printable ASCII, and '%', as %XX.
std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > ' ' && byte < 127 && c != '%') {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  const auto digit = [](char c) -> int {
    const auto at = std::string_view("0123456789abcdef").find(ascii_lower(c));
    return at == std::string_view::npos ? -1 : static_cast<int>(at);
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size() || digit(text[i + 1]) < 0 || digit(text[i + 2]) < 0)
      return std::nullopt;
    out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
    i += 2;
  }
  return out;
}

class TcpMap final : public ServedMap {
 public:
  using ServedMap::ServedMap;
  bool whole_key_only() const override { return true; }
  Value lookup(std::string_view key) override {
    if (key.size() > kMaxKey) return std::nullopt;
    PEN_TRY_ASSIGN(const auto answer, ask("get " + percent_encoded(key) + "\n"));
    const auto line = trim(answer);
    const auto text = percent_decoded(trim(line.substr(std::min<std::size_t>(3, line.size()))));
    if (line.starts_with("500")) return std::nullopt;
    if (line.starts_with("200 ") && text) return *text;
    return fail(MapError::unreadable, name() + ": " + printable(line, 200));
  }

 private:
  std::size_t whole(std::string_view bytes) const override {
    const auto lf = bytes.find('\n');
    return lf == std::string_view::npos ? 0 : lf + 1;
  }
};

/// "host:port", the host perhaps in [ ].
bool parse_host_port(std::string_view text, Server& server) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size()) return false;
  auto host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  server.host = host;
  server.port = text.substr(colon + 1);
  return true;
}

}  // namespace

Result<std::shared_ptr<Map>> make_socketmap(std::string spec, const std::string& name) {
  const auto bad = [&] {
    return fail(MapError::bad_spec,
                spec + ": expected socketmap:inet:host:port:table or socketmap:unix:/path:table");
  };
  Server server;
  const auto last = name.rfind(':');
  if (last == std::string::npos || last + 1 == name.size()) return bad();
  const std::string_view where = std::string_view(name).substr(0, last);
  if (where.starts_with("unix:/"))
    server.path = where.substr(5);
  else if (!where.starts_with("inet:") || !parse_host_port(where.substr(5), server))
    return bad();
  return std::make_shared<SocketMap>(std::move(spec), std::move(server), name.substr(last + 1));
}

Result<std::shared_ptr<Map>> make_tcp(std::string spec, const std::string& name) {
  Server server;
  if (!parse_host_port(name, server))
    return fail(MapError::bad_spec, spec + ": expected tcp:host:port");
  return std::make_shared<TcpMap>(std::move(spec), std::move(server));
}

}  // namespace pen::map
