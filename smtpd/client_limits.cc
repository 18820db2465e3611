#include "smtpd/client_limits.h"

#include "lib/base/log.h"

namespace pen::smtpd {

ClientLimits::ClientLimits(Server& server, const config::Settings& settings, const Peer& peer)
    : server_(server), settings_(settings), peer_(peer) {
  peer_changed();
}

void ClientLimits::peer_changed() {
  counted_as_ = server_.service + ":" +
                sessions::client_block(peer_.address, settings_.smtpd_client_ipv4_prefix_length,
                                       settings_.smtpd_client_ipv6_prefix_length);
}

bool ClientLimits::over(Event event, std::uint32_t rate, int limit) const {
  if (limit <= 0 || rate <= static_cast<std::uint32_t>(limit)) return false;
  static constexpr std::string_view kNames[ipc::clients::kEvents] = {
      "Connection", "Message delivery request", "Recipient address", "AUTH command", "New TLS session"};
  log::warning("{} rate limit exceeded: {} from {} for service {}", kNames[static_cast<std::size_t>(event)], rate,
               peer_.shown(), server_.service);
  return true;
}

async::Task<bool> ClientLimits::too_often(Event event, int limit) {
  if (limit <= 0 || !counted()) co_return false;
  const auto count = co_await server_.clients->count(event, counted_as_, server_.until(settings_));
  co_return over(event, count.rate, limit);
}

async::Task<bool> ClientLimits::too_many_connections() {
  const int count_limit = settings_.smtpd_client_connection_count_limit;
  const int rate_limit = settings_.smtpd_client_connection_rate_limit;
  if ((count_limit <= 0 && rate_limit <= 0) || !counted()) co_return false;
  place_.emplace(server_.clients, counted_as_);
  const auto count = co_await server_.clients->count(Event::connection, counted_as_, server_.until(settings_));
  connections_ = count.live;
  if (count_limit > 0 && count.live > static_cast<std::uint32_t>(count_limit)) {
    log::warning("Connection concurrency limit exceeded: {} from {} for service {}", count.live, peer_.shown(),
                 server_.service);
    co_return true;
  }
  co_return over(Event::connection, count.rate, rate_limit);
}

async::Task<bool> ClientLimits::too_many_handshakes() {
  const int limit = settings_.smtpd_client_new_tls_session_rate_limit;
  if (limit <= 0 || !counted()) co_return false;
  const auto seen = co_await server_.clients->look(Event::tls, counted_as_, server_.until(settings_));
  co_return seen.rate >= static_cast<std::uint32_t>(limit);
}

async::Task<sessions::Holder::Entry> ClientLimits::class_place() {
  if (!server_.classes) co_return sessions::Holder::Entry{};
  co_return co_await server_.classes->enter(peer_.name, peer_.address, server_.until(settings_));
}

}  // namespace pen::smtpd
