#pragma once
/// Questions to one name server over UDP, of many look-ups at once: those of one turn leave in one system call, and
/// answers are read as many at a time as are there.
///
/// Use:     DnsSockets sockets(loop, server);
///          auto reply = co_await sockets.ask(question, edns, dnssec, until);
/// Safety:  a socket is connected: the kernel picks its port at random and drops what comes from elsewhere. Each
///          question has a random id of its own. An answer must fit id and question; what does not is counted, and
///          waited on. Nobody outside can send from a loopback address, so the questions to a server on this host share
///          a socket. To others a socket takes kFew questions within kShort, so that its port is not worth finding out.
/// Bounds:  the caller bounds the questions. After kMaxMisfits datagrams without an answer among them the questions of
///          a socket fail: a flood does not keep the loop busy until the time-out.
/// Errors:  timed_out, cancelled, errno of the socket (connection refused), malformed, bad_name.
/// Thread:  the loop's. It must outlive every ask().
#include <cstdint>
#include <memory>

#include "lib/base/async/sync.h"
#include "lib/net/dns_packet.h"

namespace pen::net {

class DnsSockets {
 public:
  static constexpr unsigned kMaxMisfits = 200;
  static constexpr unsigned kFew = 16;
  static constexpr milliseconds kShort{50};

  DnsSockets(async::Loop& loop, async::SocketAddress server);
  ~DnsSockets();
  DnsSockets(const DnsSockets&) = delete;
  DnsSockets& operator=(const DnsSockets&) = delete;

  async::Task<Result<DnsReply>> ask(DnsQuestion question, bool edns, bool dnssec, async::Until until);
  /// Datagrams that answered no question.
  std::uint64_t refused() const { return refused_; }

 private:
  struct Socket;
  struct Waiting;
  /// One that takes a question now.
  Result<std::shared_ptr<Socket>> socket();
  Result<std::shared_ptr<Socket>> open() const;
  static async::Task<void> read(DnsSockets* self, std::shared_ptr<Socket> socket);

  async::Loop& loop_;
  const async::SocketAddress server_;
  std::shared_ptr<Socket> current_;
  std::uint64_t refused_ = 0;
  async::Gate gate_;  // declared last: its tasks end first
};

}  // namespace pen::net
