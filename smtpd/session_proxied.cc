/// smtpd_upstream_proxy_protocol: the client of a connection that comes through a proxy.
#include "lib/base/log.h"
#include "lib/net/proxy_reader.h"
#include "smtpd/session.h"

namespace pen::smtpd {

async::Task<bool> Session::ask_proxy() {
  const auto& s = settings();
  const auto patience = server_.screener ? s.postscreen_upstream_proxy_timeout : s.smtpd_upstream_proxy_timeout;
  const async::Until soon{.deadline = server_.loop.now() + patience, .cancel = &server_.stop_cancel()};
  auto header =
      co_await net::read_proxy_header(server_.loop, stream_.fd(), {.ipv4 = policy_->ipv4, .ipv6 = policy_->ipv6}, soon);
  Peer& peer = client_.peer;
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
    stream_.close();
    co_return false;
  }
  if (header->local) co_return true;
  peer.address = header->client.text();
  peer.port = header->client_port;
  limits_.peer_changed();
  client_.reached =
      std::make_unique<async::SocketAddress>(async::SocketAddress::inet(header->server.text(), header->server_port));
  co_return true;
}

std::optional<async::SocketAddress> Session::own_end() const {
  if (client_.reached) return *client_.reached;
  if (auto own = async::local_address(stream_.fd())) return *std::move(own);
  return std::nullopt;
}

}  // namespace pen::smtpd
