#include "lib/net/dnsbl/question.h"

#include <algorithm>

#include "lib/base/network.h"
#include "lib/base/text.h"
#include "lib/net/dns_packet.h"

namespace pen::dnsbl {

std::optional<std::string> about_address(std::string_view address, std::string_view list_domain) {
  const auto ip = parse_ip(address);
  if (!ip || ip->size == 0) return std::nullopt;
  std::string name;
  for (std::size_t i = ip->size; i-- > 0;) {
    if (ip->size == 4) {
      name += std::to_string(ip->bytes[i]) + ".";
    } else {
      constexpr std::string_view kHex = "0123456789abcdef";
      for (const int nibble : {ip->bytes[i] & 15, ip->bytes[i] >> 4}) {
        name += kHex[static_cast<std::size_t>(nibble)];
        name += '.';
      }
    }
  }
  return net::normal_name(name.append(list_domain));
}

std::optional<std::string> about_name(std::string_view name, std::string_view list_domain) {
  const std::string_view last = name.substr(name.rfind('.') + 1);  // the whole name without a dot: npos + 1 is 0
  if (name.empty() || name.starts_with('[') || std::ranges::all_of(last, ascii_digit)) return std::nullopt;
  const auto normal = net::normal_name(name);
  if (!normal) return std::nullopt;
  return net::normal_name(*normal + "." + std::string(list_domain));
}

}  // namespace pen::dnsbl
