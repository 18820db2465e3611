#include "smtpd/arrival.h"

#include "lib/base/log.h"
#include "lib/net/proxy_reader.h"
#include "smtpd/lists_ahead.h"

namespace pen::smtpd {

async::Task<bool> ask_proxy(Conversation& talk, ClientLimits& limits) {
  const auto& s = talk.settings();
  const auto patience = talk.server.screener ? s.postscreen_upstream_proxy_timeout : s.smtpd_upstream_proxy_timeout;
  const async::Until soon{.deadline = talk.server.loop.now() + patience, .cancel = &talk.server.stop_cancel()};
  auto header = co_await net::read_proxy_header(talk.server.loop, talk.stream.fd(),
                                                {.ipv4 = talk.policy().ipv4, .ipv6 = talk.policy().ipv6}, soon);
  Peer& peer = talk.client.peer;
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
    talk.stream.close();
    co_return false;
  }
  if (header->local) co_return true;
  peer.address = header->client.text();
  peer.port = header->client_port;
  limits.peer_changed();
  talk.client.reached =
      std::make_unique<async::SocketAddress>(async::SocketAddress::inet(header->server.text(), header->server_port));
  co_return true;
}

async::Task<void> ask_lists_about_address(Conversation& talk) {
  if (!talk.policy().named_lists || talk.policy().named_lists->client_address.empty() ||
      talk.client.peer.address == kUnknownAddress)
    co_return;
  const Result<bool> trusted = co_await talk.server.intake.tables.ask(
      [&talk] { return talk.policy().mynetworks.matches_address(talk.client.peer.address); });
  if (trusted == false)
    ask_ahead_about_address(talk.server.lists, talk.policy().named_lists->client_address, talk.client.peer.address);
}

}  // namespace pen::smtpd
