#include "lib/net/dns_exchange.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

namespace pen::net {
namespace {

using async::Task;
using async::Until;

// A flood of forged datagrams ends the try; it does not keep the loop busy until the time-out.
constexpr unsigned kMaxMisfits = 200;

Result<Fd> connected_udp(const async::SocketAddress& server) {
  sockaddr_storage to{};
  socklen_t size = 0;
  if (auto* v4 = reinterpret_cast<sockaddr_in*>(&to); inet_pton(AF_INET, server.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(server.port);
    size = sizeof *v4;
  } else if (auto* v6 = reinterpret_cast<sockaddr_in6*>(&to);
             inet_pton(AF_INET6, server.host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(server.port);
    size = sizeof *v6;
  } else {
    return fail(DnsError::bad_address, server.text());
  }
  Fd fd(::socket(to.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("socket");
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), size) != 0)
    return fail_errno("connect " + server.text());
  return fd;
}

/// Gives datagrams the form of DNS over TCP: two bytes of length, then the message.
class DatagramTransport final : public async::Transport {
 public:
  explicit DatagramTransport(int fd) : fd_(fd) {}
  Outcome read(MutableBytes into) override {
    Outcome outcome;
    if (sent_ == frame_.size() && !receive(outcome)) return outcome;
    outcome.bytes = std::min(into.size(), frame_.size() - sent_);
    std::memcpy(into.data(), frame_.data() + sent_, outcome.bytes);
    sent_ += outcome.bytes;
    return outcome;
  }
  Outcome write(std::span<const Bytes>) override { return {.bytes = 0, .want = Want::nothing, .error = EPIPE}; }

 private:
  bool receive(Outcome& outcome) {
    frame_.resize(2 + 4096);
    sent_ = 0;
    const ssize_t got = ::recv(fd_, frame_.data() + 2, frame_.size() - 2, 0);
    if (got < 0) {
      frame_.clear();
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
        outcome.want = Want::read;
      } else {
        outcome.error = errno;
      }
      return false;
    }
    frame_.resize(2 + static_cast<std::size_t>(got));
    frame_[0] = static_cast<char>(got >> 8);
    frame_[1] = static_cast<char>(got & 255);
    return true;
  }
  int fd_;
  std::string frame_;
  std::size_t sent_ = 0;
};

/// Reads one length-prefixed message. The view dies at the next read.
Task<Result<std::string_view>> read_message(async::Stream& stream, Until until) {
  PEN_CO_TRY_ASSIGN(const std::string_view prefix, co_await stream.read_exact(2, until));
  const std::size_t size =
      std::size_t{static_cast<unsigned char>(prefix[0])} << 8 | static_cast<unsigned char>(prefix[1]);
  if (size == 0) co_return std::string_view();
  co_return co_await stream.read_exact(size, until);
}

std::uint16_t random_id() { return static_cast<std::uint16_t>(secure_random_u64()); }

}  // namespace

Task<Result<DnsReply>> DnsExchange::over_udp(bool edns) {
  const Until until{.deadline = loop.now() + timeout};
  const std::uint16_t id = random_id();
  PEN_CO_TRY_ASSIGN(const std::string query, build_query(question, id, edns, dnssec));
  PEN_CO_TRY_ASSIGN(Fd fd, connected_udp(server));
  if (::send(fd.get(), query.data(), query.size(), MSG_NOSIGNAL) < 0) co_return fail_errno("send to " + server.text());
  auto transport = std::make_unique<DatagramTransport>(fd.get());
  async::Stream stream(loop, std::move(fd));
  stream.start_transport(std::move(transport));
  for (unsigned misfits = 0; misfits < kMaxMisfits; ++misfits) {
    PEN_CO_TRY_ASSIGN(const std::string_view message, co_await read_message(stream, until));
    auto reply = parse_reply(message, question, id);
    if (reply) co_return reply;
    ++refused;
  }
  co_return fail(DnsError::malformed, server.text());
}

Task<Result<DnsReply>> DnsExchange::over_tcp() {
  const Until until{.deadline = loop.now() + timeout};
  const std::uint16_t id = random_id();
  PEN_CO_TRY_ASSIGN(const std::string query, build_query(question, id, true, dnssec));
  PEN_CO_TRY_ASSIGN(async::Stream stream, co_await async::connect(loop, server, until));
  std::string framed;
  framed += static_cast<char>(query.size() >> 8);
  framed += static_cast<char>(query.size() & 255);
  framed += query;
  stream.write(framed);
  PEN_CO_TRY_ASSIGN(const std::string_view message, co_await read_message(stream, until));
  auto reply = parse_reply(message, question, id);
  if (!reply) ++refused;
  co_return reply;
}

}  // namespace pen::net
