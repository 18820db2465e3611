#pragma once
/// Numeric addresses and networks as values.
///
/// Use:     auto net = parse_network("192.0.2.0/24"); net->contains(*parse_ip("192.0.2.7"));
/// Form:    IPv4 dotted quads and IPv6, with or without brackets, "/bits" optional. IPv4-mapped IPv6 addresses are
///          taken as IPv4, so that a client is the same host on both kinds of socket. The bits of a mapped network
///          count from the beginning of the IPv6 address: [::ffff:127.0.0.0]/104 is 127.0.0.0/8.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace pen {

enum class NetworkError { syntax = 1 };
std::string_view error_module(NetworkError);
std::string_view describe(NetworkError);

struct IpAddress {
  std::array<std::uint8_t, 16> bytes{};
  std::uint8_t size = 0;  // 4 or 16; 0: none
  std::string text() const;
  bool operator==(const IpAddress&) const = default;
};
/// nullopt: not a numeric address.
std::optional<IpAddress> parse_ip(std::string_view text);

struct Network {
  IpAddress base;
  std::uint8_t bits = 0;
  bool contains(const IpAddress& address) const;
};
/// Errors: NetworkError::syntax, also when bits beyond the mask are set ("192.0.2.1/24"), as in Postfix.
Result<Network> parse_network(std::string_view text);

}  // namespace pen
