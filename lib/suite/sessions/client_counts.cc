#include "lib/suite/sessions/client_counts.h"

#include <algorithm>

#include "lib/base/network.h"

namespace pen::sessions {

using namespace ipc::clients;

std::string client_block(std::string_view address, int ipv4_bits, int ipv6_bits) {
  auto ip = parse_ip(address);
  if (!ip) return std::string(address);
  const int bits = ip->size == 4 ? ipv4_bits : ipv6_bits;
  for (int i = 0; i < ip->size; ++i) {
    const int kept = std::clamp(bits - 8 * i, 0, 8);
    auto& byte = ip->bytes[static_cast<std::size_t>(i)];
    byte = static_cast<std::uint8_t>(byte & (0xff00u >> kept));
  }
  return ip->text();
}

AnvilCounts::AnvilCounts(async::Loop& loop, std::string path, Options options)
    : link_(loop,
            {.path = std::move(path),
             .conversation = kName,
             .connect_timeout = options.answer_time,
             .meanwhile =
                 "smtpd_client_connection_count_limit counts the sessions of this process, and clients have no rates",
             .report = std::move(options.report)},
            *this),
      questions_(loop, link_, options.answer_time, [this](const Count& count) { send(count); }) {}

void AnvilCounts::on_connected() {
  for (const auto& [client, sessions] : live_) send(Enter{client, sessions});
  questions_.on_connected();
}

void AnvilCounts::on_message(Link::Channel::Received& received) {
  const auto& m = std::get<ipc::clients::Counted>(received.message);
  questions_.answer(m.request, m);
}

std::uint32_t AnvilCounts::own(const std::string& client) const {
  const auto at = live_.find(client);
  return at == live_.end() ? 0 : at->second;
}

void AnvilCounts::entered(const std::string& client) {
  ++live_[client];
  send(Enter{client, 1});
}

void AnvilCounts::left(const std::string& client) {
  const auto at = live_.find(client);
  if (--at->second == 0) live_.erase(at);
  send(Leave{client});
}

async::Task<ClientCounts::Counted> AnvilCounts::ask(Event event, std::string client, bool look, async::Until until) {
  const auto answer =
      co_await questions_.ask(shared_from_this(), {.event = event, .look = look, .client = client}, until);
  co_return Counted{.rate = answer ? answer->rate : 0, .live = std::max(answer ? answer->live : 0, own(client))};
}

}  // namespace pen::sessions
