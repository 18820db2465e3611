#include "smtpd/rates.h"

#include <algorithm>

#include "lib/map/network.h"

namespace pen::smtpd {

std::string client_block(std::string_view address, int ipv4_bits, int ipv6_bits) {
  auto ip = map::parse_ip(address);
  if (!ip) return std::string(address);
  const int bits = ip->size == 4 ? ipv4_bits : ipv6_bits;
  for (int i = 0; i < ip->size; ++i) {
    const int kept = std::clamp(bits - 8 * i, 0, 8);
    auto& byte = ip->bytes[static_cast<std::size_t>(i)];
    byte = static_cast<std::uint8_t>(byte & (0xff00u >> kept));
  }
  return ip->text();
}

std::uint32_t Rates::seen(Event event, const std::string& client, SteadyTime now) const {
  const auto found = clients_.find(client);
  if (found == clients_.end() || now >= found->second.begun + unit_) return 0;
  return found->second.events[static_cast<std::size_t>(event)];
}

std::uint32_t Rates::count(Event event, const std::string& client, SteadyTime now) {
  while (!oldest_.empty()) {
    const auto found = clients_.find(oldest_.front());
    if (now < found->second.begun + unit_) break;
    clients_.erase(found);
    oldest_.pop_front();
  }
  auto found = clients_.find(client);
  if (found == clients_.end()) {
    if (clients_.size() >= kMaxClients) return 0;
    found = clients_.emplace(client, Client{.begun = now, .events = {}}).first;
    oldest_.push_back(client);
  }
  return ++found->second.events[static_cast<std::size_t>(event)];
}

}  // namespace pen::smtpd
