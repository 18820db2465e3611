#include "lib/send/egress/proxy_v2.h"

#include <string_view>

#include "lib/base/check.h"

namespace pen::egress {

std::string proxy_v2(const IpAddress& from, const IpAddress& to, std::uint16_t port) {
  PEN_CHECK(from.size == to.size && to.size > 0, "the source has an address of the host's family");
  constexpr std::string_view kSignature("\r\n\r\n\0\r\nQUIT\n", 12);
  constexpr char kProxyCommand = 0x21, kTcp4 = 0x11, kTcp6 = 0x21;
  std::string out(kSignature);
  out += kProxyCommand;
  out += to.size == 4 ? kTcp4 : kTcp6;
  const auto length = static_cast<std::size_t>(2 * to.size + 4);
  out += '\0';
  out += static_cast<char>(length);
  out.append(reinterpret_cast<const char*>(from.bytes.data()), from.size);
  out.append(reinterpret_cast<const char*>(to.bytes.data()), to.size);
  out.append(2, '\0');  // the proxy chooses the port
  out += static_cast<char>(static_cast<std::uint8_t>(port >> 8U));
  out += static_cast<char>(static_cast<std::uint8_t>(port & 0xffU));
  return out;
}

}  // namespace pen::egress
