#pragma once
/// One question to one name server, over UDP or TCP. Datagrams that do not answer the question are ignored until the
/// time is over, so that a forger's wrong guess does no harm.
/// Thread: the loop's. The exchange must outlive its tasks.
#include "lib/base/async/stream.h"
#include "lib/net/dns_sockets.h"

namespace pen::net {

struct DnsExchange {
  async::Loop& loop;
  async::SocketAddress server;
  DnsSockets& sockets;  // of that server
  DnsQuestion question;
  milliseconds timeout;
  bool dnssec = false;
  std::uint64_t refused = 0;  // answers over TCP that did not answer the question

  /// Errors: timed_out, errno of the socket (connection refused), malformed.
  async::Task<Result<DnsReply>> over_udp(bool edns) {
    return sockets.ask(question, edns, dnssec, {.deadline = loop.now() + timeout});
  }
  async::Task<Result<DnsReply>> over_tcp();
};

}  // namespace pen::net
