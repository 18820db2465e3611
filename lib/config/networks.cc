#include "lib/config/networks.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "lib/base/text.h"

namespace pen::config {
namespace {

using Raw = std::array<unsigned char, 16>;

bool loopback(const InterfaceAddress& a) { return a.ipv6 ? a.address == "::1" : a.address.starts_with("127."); }

/// The prefix length of an interface's network. Loopback is the whole of 127/8, unless the style is host.
unsigned prefix_of(const InterfaceAddress& a, const Raw& raw, NetworksStyle style) {
  const unsigned bits = a.ipv6 ? 128 : 32;
  if (style == NetworksStyle::host) return bits;
  if (style == NetworksStyle::address_class && !a.ipv6) {
    if (raw[0] < 128) return 8;
    if (raw[0] < 192) return 16;
    if (raw[0] < 224) return 24;
    return 32;
  }
  return std::min(a.prefix, bits);
}

bool listed(const InterfaceAddress& a, const std::vector<std::string>& listen) {
  return std::ranges::any_of(listen, [&](std::string_view item) {
    if (iequals(item, "all")) return true;
    if (iequals(item, "loopback-only")) return loopback(a);
    if (iequals(item, "localhost")) return loopback(a);
    if (item.starts_with('[') && item.ends_with(']')) item = item.substr(1, item.size() - 2);
    return iequals(item, a.address);
  });
}

bool spoken(const InterfaceAddress& a, const std::vector<std::string>& protocols) {
  return std::ranges::any_of(protocols, [&](std::string_view item) {
    return iequals(item, "all") || iequals(item, a.ipv6 ? "ipv6" : "ipv4");
  });
}

}  // namespace

std::string own_networks(const std::vector<InterfaceAddress>& interfaces, NetworksStyle style,
                         const std::vector<std::string>& listen, const std::vector<std::string>& protocols) {
  std::vector<std::string> found;
  for (const bool ipv6 : {false, true}) {
    for (const InterfaceAddress& a : interfaces) {
      Raw raw{};
      if (a.ipv6 != ipv6 || !listed(a, listen) || !spoken(a, protocols)) continue;
      if (inet_pton(ipv6 ? AF_INET6 : AF_INET, a.address.c_str(), raw.data()) != 1) continue;
      const unsigned prefix = prefix_of(a, raw, style);
      for (unsigned bit = prefix; bit < (ipv6 ? 128U : 32U); ++bit)
        raw[bit / 8] = static_cast<unsigned char>(raw[bit / 8] & ~(0x80U >> (bit % 8)));
      char text[INET6_ADDRSTRLEN] = "";
      inet_ntop(ipv6 ? AF_INET6 : AF_INET, raw.data(), text, sizeof text);
      std::string network = ipv6 ? "[" + std::string(text) + "]" : std::string(text);
      network += "/" + std::to_string(prefix);
      if (std::ranges::find(found, network) == found.end()) found.push_back(std::move(network));
    }
  }
  std::string joined;
  for (const auto& network : found) joined += (joined.empty() ? "" : " ") + network;
  return joined;
}

}  // namespace pen::config
