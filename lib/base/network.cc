#include "lib/base/network.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "lib/base/text.h"

namespace pen {
namespace {

constexpr std::array<std::uint8_t, 12> kMappedPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool bit(const IpAddress& address, unsigned index) { return (address.bytes[index / 8] >> (7 - index % 8) & 1) != 0; }

}  // namespace

std::string_view error_module(NetworkError) { return "network"; }
std::string_view describe(NetworkError) { return "syntax error"; }

std::string IpAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> out{};
  if (size == 0) return {};
  inet_ntop(size == 4 ? AF_INET : AF_INET6, bytes.data(), out.data(), out.size());
  return out.data();
}

std::optional<IpAddress> parse_ip(std::string_view text) {
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
    if (istarts_with(text, "ipv6:")) text.remove_prefix(5);
  }
  if (text.size() >= INET6_ADDRSTRLEN || text.find('\0') != std::string_view::npos) return std::nullopt;
  const std::string copy(text);
  IpAddress address;
  if (inet_pton(AF_INET, copy.c_str(), address.bytes.data()) == 1) {
    address.size = 4;
    return address;
  }
  if (inet_pton(AF_INET6, copy.c_str(), address.bytes.data()) != 1) return std::nullopt;
  address.size = 16;
  if (std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), address.bytes.begin())) {
    IpAddress v4;
    std::copy_n(address.bytes.begin() + 12, 4, v4.bytes.begin());
    v4.size = 4;
    return v4;
  }
  return address;
}

bool Network::contains(const IpAddress& address) const {
  if (address.size != base.size || base.size == 0) return false;
  const unsigned whole = bits / 8;
  if (std::memcmp(address.bytes.data(), base.bytes.data(), whole) != 0) return false;
  for (unsigned i = whole * 8; i < bits; ++i) {
    if (bit(address, i) != bit(base, i)) return false;
  }
  return true;
}

Result<Network> parse_network(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return fail(NetworkError::syntax, "network \"" + printable(text, 64) + "\": " + std::string(why));
  };
  const auto slash = text.find('/');
  const auto base = parse_ip(text.substr(0, slash));
  if (!base) return bad("not a numeric address");
  Network network{*base, static_cast<std::uint8_t>(base->size * 8)};
  if (slash == std::string_view::npos) return network;
  // As written, the bits of an IPv4-mapped network count from the beginning of the IPv6 address.
  const bool mapped = base->size == 4 && text.substr(0, slash).contains(':');
  const unsigned before = mapped ? kMappedPrefix.size() * 8 : 0;
  const auto bits = parse_unsigned(text.substr(slash + 1));
  if (!bits || *bits > before + network.bits) return bad("bad number of mask bits");
  if (*bits < before) return bad("has bits set beyond its mask");
  network.bits = static_cast<std::uint8_t>(*bits - before);
  IpAddress masked = *base;
  for (unsigned i = network.bits; i < base->size * 8U; ++i)
    masked.bytes[i / 8] = static_cast<std::uint8_t>(masked.bytes[i / 8] & ~(0x80U >> i % 8));
  if (masked == *base) return network;
  const std::string written = masked.size == 4 ? masked.text() : "[" + masked.text() + "]";
  return bad("has bits set beyond its mask; write " + written + "/" + std::to_string(network.bits));
}

}  // namespace pen
