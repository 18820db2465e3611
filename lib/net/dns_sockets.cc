#include "lib/net/dns_sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <unordered_map>
#include <vector>

#include "lib/base/async/readiness.h"

namespace pen::net {

using async::Task;
using async::Until;

namespace {

constexpr std::size_t kAtOnce = 16;      // datagrams of one system call
constexpr std::size_t kDatagram = 4096;  // more than is asked for (kUdpSize)
constexpr unsigned kRounds = 4;          // of reading, before others have their turn
constexpr seconds kLong{600};            // of a socket to a server on this host
// A buffer of the usual size holds some 270 small datagrams: a burst of more would be lost, by the server or here, and
// each costs its look-up a time-out.
constexpr std::size_t kWindow = 128;
constexpr milliseconds kPatience{20};
constexpr int kReceives = 1 << 20;  // bytes

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
  bool near = false;
};

Result<Address> address_of(const async::SocketAddress& server) {
  Address to;
  if (auto* v4 = reinterpret_cast<sockaddr_in*>(&to.bytes);
      inet_pton(AF_INET, server.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(server.port);
    to.size = sizeof *v4;
    to.near = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
  } else if (auto* v6 = reinterpret_cast<sockaddr_in6*>(&to.bytes);
             inet_pton(AF_INET6, server.host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(server.port);
    to.size = sizeof *v6;
    to.near = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
  } else {
    return fail(DnsError::bad_address, server.text());
  }
  return to;
}

/// Messages for sendmmsg() and recvmmsg(), each with one piece of memory.
class Batch {
 public:
  void add(char* data, std::size_t size) {
    pieces_[count_] = {.iov_base = data, .iov_len = size};
    messages_[count_] = {};
    messages_[count_].msg_hdr.msg_iov = &pieces_[count_];
    messages_[count_].msg_hdr.msg_iovlen = 1;
    ++count_;
  }
  unsigned count() const { return count_; }
  mmsghdr* messages() { return messages_.data(); }
  std::string_view got(std::size_t i) const {
    return {static_cast<const char*>(pieces_[i].iov_base), messages_[i].msg_len};
  }

 private:
  std::array<iovec, kAtOnce> pieces_;
  std::array<mmsghdr, kAtOnce> messages_;
  unsigned count_ = 0;
};

}  // namespace

struct DnsSockets::Waiting {
  Waiting(async::Loop& loop, Socket& on_in, std::uint16_t id_in, const DnsQuestion& question_in);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  Socket& on;
  const std::uint16_t id;
  const DnsQuestion& question;
  Result<DnsReply> reply = fail(async::WaitError::timed_out);
  async::Event done;
};

struct DnsSockets::Socket : async::detail::EndOfTurn {
  Socket(async::Loop& loop_in, Fd fd_in, bool near_in)
      : loop(loop_in),
        fd(std::move(fd_in)),
        near(near_in),
        readiness(loop, fd.get()),
        until(loop.now() + (near ? seconds(kLong) : kShort)) {
    run = [](async::detail::EndOfTurn& node) { static_cast<Socket&>(node).send(); };
  }

  async::Loop& loop;
  Fd fd;
  const bool near;
  async::Readiness readiness;
  const SteadyTime until;  // questions are taken
  unsigned questions = 0, misfits = 0;
  bool reading = false, retired = false;
  std::unordered_map<std::uint16_t, Waiting*> waiting;  // by id
  std::vector<std::string> queries;                     // not yet sent
  std::size_t unanswered = 0;                           // of those sent within kPatience
  async::Loop::TimerHandle patience;                    // until more is sent unanswered
  async::Cancel idle;                                   // nobody waits any more

  bool takes(SteadyTime now) const { return !retired && now < until && (near || questions < kFew); }

  std::uint16_t fresh_id() const {
    for (;;) {
      const auto id = static_cast<std::uint16_t>(secure_random_u64());
      if (!waiting.contains(id)) return id;  // at most 1,000 of 65,536 are taken
    }
  }

  void settle(Waiting& w, Result<DnsReply> reply) {
    w.reply = std::move(reply);
    w.done.set();
    waiting.erase(w.id);
  }
  void fail_all(const Error& error) {
    retired = true;
    while (!waiting.empty()) settle(*waiting.begin()->second, std::unexpected(error));
  }

  void send() {
    std::size_t at = 0;
    while (at < queries.size() && unanswered < kWindow) {
      Batch batch;
      for (std::size_t i = at; i < queries.size() && batch.count() < std::min(kAtOnce, kWindow - unanswered); ++i)
        batch.add(queries[i].data(), queries[i].size());
      const int sent = ::sendmmsg(fd.get(), batch.messages(), batch.count(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) {
        fail_all(Error::from_errno(errno, "send to a name server"));
        idle.raise();
        at = queries.size();
        break;
      }
      at += static_cast<std::size_t>(sent);
      unanswered += static_cast<std::size_t>(sent);
    }
    queries.erase(queries.begin(), queries.begin() + static_cast<std::ptrdiff_t>(at));
    if (!queries.empty() && !patience) {
      patience = loop.call_at(loop.now() + kPatience, [this] {
        patience.reset();
        unanswered = 0;  // of silent names, or lost
        send();
      });
    }
  }

  /// False: it answers no question.
  bool take(std::string_view datagram) {
    if (datagram.size() < 2) return false;
    const auto id = static_cast<std::uint16_t>(static_cast<unsigned char>(datagram[0]) << 8 |
                                               static_cast<unsigned char>(datagram[1]));
    const auto at = waiting.find(id);
    if (at == waiting.end()) return false;
    auto reply = parse_reply(datagram, at->second->question, id);
    if (!reply) return false;
    settle(*at->second, std::move(reply));
    if (unanswered > 0) --unanswered;
    return true;
  }
};

DnsSockets::Waiting::Waiting(async::Loop& loop, Socket& on_in, std::uint16_t id_in, const DnsQuestion& question_in)
    : on(on_in), id(id_in), question(question_in), done(loop) {
  on.waiting.emplace(id, this);
}
DnsSockets::Waiting::~Waiting() {
  const auto at = on.waiting.find(id);
  if (at == on.waiting.end() || at->second != this) return;
  on.waiting.erase(at);
  if (on.waiting.empty()) on.idle.raise();
}

DnsSockets::DnsSockets(async::Loop& loop, async::SocketAddress server)
    : loop_(loop), server_(std::move(server)), gate_(loop) {}
DnsSockets::~DnsSockets() = default;

Result<std::shared_ptr<DnsSockets::Socket>> DnsSockets::open() const {
  PEN_TRY_ASSIGN(const Address to, address_of(server_));
  Fd fd(::socket(to.bytes.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("socket");
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.bytes), to.size) != 0)
    return fail_errno("connect " + server_.text());
  // The kernel gives what it allows, usually twice what sockets have: a server that was held up answers all at once.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &kReceives, sizeof kReceives);
  return std::make_shared<Socket>(loop_, std::move(fd), to.near);
}

Result<std::shared_ptr<DnsSockets::Socket>> DnsSockets::socket() {
  if (!current_ || !current_->takes(loop_.now())) {
    PEN_TRY_ASSIGN(current_, open());
  }
  return current_;
}

Task<void> DnsSockets::read(DnsSockets* self, std::shared_ptr<Socket> socket) {
  thread_local std::vector<char> memory(kAtOnce * kDatagram);
  Socket& s = *socket;
  while (!s.waiting.empty()) {
    s.idle.reset();
    if (auto ready = co_await s.readiness.readable({.deadline = kNever, .cancel = &s.idle}); !ready) {
      if (ready.error().is(async::WaitError::cancelled)) continue;
      s.fail_all(ready.error());
      break;
    }
    for (unsigned round = 0; round < kRounds && !s.waiting.empty(); ++round) {
      Batch batch;
      for (std::size_t i = 0; i < kAtOnce; ++i) batch.add(memory.data() + i * kDatagram, kDatagram);
      const int got = ::recvmmsg(s.fd.get(), batch.messages(), batch.count(), MSG_DONTWAIT, nullptr);
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) break;
      if (got < 0) {
        s.fail_all(Error::from_errno(errno, self->server_.text()));
        break;
      }
      for (std::size_t i = 0; i < static_cast<std::size_t>(got); ++i) {
        if (s.take(batch.got(i))) {
          s.misfits = 0;
          continue;
        }
        ++self->refused_;
        if (++s.misfits < kMaxMisfits) continue;
        s.fail_all(fail(DnsError::malformed, self->server_.text()).error());
        break;
      }
      if (static_cast<unsigned>(got) < batch.count()) break;
    }
    if (!s.queries.empty()) s.send();
  }
  s.queries.clear();  // nobody waits for their answers any more
  s.reading = false;
}

Task<Result<DnsReply>> DnsSockets::ask(DnsQuestion question, bool edns, bool dnssec, Until until) {
  PEN_CO_TRY_ASSIGN(const std::shared_ptr<Socket> on, socket());
  const std::uint16_t id = on->fresh_id();
  PEN_CO_TRY_ASSIGN(std::string query, build_query(question, id, edns, dnssec));
  Waiting waiting(loop_, *on, id, question);
  on->queries.push_back(std::move(query));
  ++on->questions;
  loop_.at_end_of_turn(*on);
  if (!std::exchange(on->reading, true)) gate_.spawn("dns answers", read(this, on));
  if (auto done = co_await waiting.done.wait(until); !done) co_return std::unexpected(std::move(done).error());
  co_return std::move(waiting.reply);
}

}  // namespace pen::net
