#pragma once
/// One question to one name server, over UDP or TCP.
///
/// Each exchange has a socket of its own, connected to the server: the kernel picks a random source port and drops
/// datagrams from elsewhere. Each has a random id. Datagrams that do not answer the question are ignored until the
/// time is over, so that a forger's wrong guess does no harm.
/// Thread: the loop's. The exchange must outlive its tasks.
#include "lib/async/stream.h"
#include "lib/net/dns_packet.h"

namespace pen::net {

struct DnsExchange {
  async::Loop& loop;
  async::SocketAddress server;
  DnsQuestion question;
  milliseconds timeout;
  bool dnssec = false;
  std::uint64_t refused = 0;  // datagrams that did not answer the question

  /// Errors: timed_out, errno of the socket (connection refused), malformed.
  async::Task<Result<DnsReply>> over_udp(bool edns);
  async::Task<Result<DnsReply>> over_tcp();
};

}  // namespace pen::net
