/// smtpd_upstream_proxy_protocol: the client of a connection that comes through a proxy.
#include "lib/base/log.h"
#include "lib/net/proxy_reader.h"
#include "smtpd/session.h"

namespace pen::smtpd {

async::Task<bool> Session::ask_proxy() {
  const auto& s = talk_.settings();
  const auto patience = talk_.server.screener ? s.postscreen_upstream_proxy_timeout : s.smtpd_upstream_proxy_timeout;
  const async::Until soon{.deadline = talk_.server.loop.now() + patience, .cancel = &talk_.server.stop_cancel()};
  auto header = co_await net::read_proxy_header(talk_.server.loop, talk_.stream.fd(),
                                                {.ipv4 = talk_.policy().ipv4, .ipv6 = talk_.policy().ipv6}, soon);
  Peer& peer = talk_.client.peer;
  if (!header) {
    const Error& error = header.error();
    // The address is the proxy's, or of a client that went round it: no client's limits or permits are for it.
    if (error.is(async::WaitError::timed_out))
      log::warning("haproxy read: timeout error");
    else if (!error.is(async::WaitError::cancelled))
      log::warning("haproxy read: {}{}{}", error.code().message(), error.context().empty() ? "" : ": ",
                   error.context());
    peer.address = kUnknownAddress;
    peer.port = 0;
    talk_.stream.close();
    co_return false;
  }
  if (header->local) co_return true;
  peer.address = header->client.text();
  peer.port = header->client_port;
  limits_.peer_changed();
  talk_.client.reached =
      std::make_unique<async::SocketAddress>(async::SocketAddress::inet(header->server.text(), header->server_port));
  co_return true;
}

}  // namespace pen::smtpd
