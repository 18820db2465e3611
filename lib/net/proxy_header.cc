#include "lib/net/proxy_header.h"

#include <algorithm>

#include "lib/base/text.h"

namespace pen::net {
namespace {

constexpr std::string_view kBegin1 = "PROXY ";
constexpr std::size_t kMaxHeader1 = 107;  // with CRLF
constexpr std::string_view kBegin2("\r\n\r\n\0\r\nQUIT\n", 12);
constexpr std::size_t kFixed2 = 16;  // of version 2: signature, version and command, protocol, length
constexpr std::size_t kAddresses4 = 12, kAddresses6 = 36;

std::uint16_t number(std::string_view two) {
  return static_cast<std::uint16_t>(static_cast<unsigned char>(two[0]) << 8 | static_cast<unsigned char>(two[1]));
}

/// A text of version 1 may be written with capitals, and its port only without leading zeros.
std::optional<std::uint16_t> port(std::string_view word) {
  const auto value = parse_unsigned(word);
  if (!value || *value > 65535 || word.size() > 5 || (word.size() > 1 && word.front() == '0')) return std::nullopt;
  return static_cast<std::uint16_t>(*value);
}

std::optional<IpAddress> address(std::string_view word, bool ipv6) {
  const bool looks_ipv6 = word.contains(':');
  if (looks_ipv6 != ipv6 || word.contains('[')) return std::nullopt;
  return parse_ip(word);
}

Result<ProxyHeader> parse_line(std::string_view line, ProxyFamilies families) {
  ProxyHeader header;
  const auto word = [rest = line]() mutable {
    const auto begin = std::min(rest.find_first_not_of(" \r"), rest.size());
    const auto end = std::min(rest.find_first_of(" \r", begin), rest.size());
    const std::string_view found = rest.substr(begin, end - begin);
    rest.remove_prefix(end);
    return found;
  };
  auto next = word;
  (void)next();  // PROXY
  const std::string_view protocol = next();
  const bool ipv6 = iequals(protocol, "TCP6");
  if (ipv6 ? !families.ipv6 : !iequals(protocol, "TCP4") || !families.ipv4) return fail(ProxyHeaderError::bad_protocol);
  const auto client = address(next(), ipv6), server = address(next(), ipv6);
  if (!client) return fail(ProxyHeaderError::bad_client_address);
  if (!server) return fail(ProxyHeaderError::bad_server_address);
  const auto client_port = port(next()), server_port = port(next());
  if (!client_port) return fail(ProxyHeaderError::bad_client_port);
  if (!server_port) return fail(ProxyHeaderError::bad_server_port);
  header.client = *client;
  header.server = *server;
  header.client_port = *client_port;
  header.server_port = *server_port;
  return header;
}

IpAddress binary(std::string_view bytes) {
  IpAddress out;
  out.size = static_cast<std::uint8_t>(bytes.size());
  std::ranges::copy(bytes, out.bytes.begin());
  // An IPv4 address on an IPv6 socket is the same client as without the prefix.
  return out.size == 16 ? *parse_ip(out.text()) : out;
}

Result<ProxyHeader> parse_binary(std::string_view bytes, ProxyFamilies families) {
  ProxyHeader header;
  const auto command = static_cast<unsigned char>(bytes[12]), protocol = static_cast<unsigned char>(bytes[13]);
  if ((command & 0xf) > 1) return fail(ProxyHeaderError::bad_command);
  header.local = (command & 0xf) == 0;
  if (header.local) return header;
  if (protocol != 0x11 && protocol != 0x21) return fail(ProxyHeaderError::other_network);  // TCP over IPv4, IPv6
  const bool ipv6 = protocol == 0x21;
  if (ipv6 && !families.ipv6) return fail(ProxyHeaderError::no_ipv6);
  if (!ipv6 && !families.ipv4) return fail(ProxyHeaderError::no_ipv4);
  const std::string_view addresses = bytes.substr(kFixed2);
  if (addresses.size() < (ipv6 ? kAddresses6 : kAddresses4)) return fail(ProxyHeaderError::short_addresses);
  const std::size_t one = ipv6 ? 16 : 4;
  header.client = binary(addresses.substr(0, one));
  header.server = binary(addresses.substr(one, one));
  header.client_port = number(addresses.substr(2 * one));
  header.server_port = number(addresses.substr(2 * one + 2));
  return header;
}

bool begins(std::string_view input, std::string_view with) {
  return input.substr(0, with.size()) == with.substr(0, input.size());
}

}  // namespace

std::string_view error_module(ProxyHeaderError) { return "haproxy"; }
std::string_view describe(ProxyHeaderError e) {
  switch (e) {
    case ProxyHeaderError::end_of_input:
      return "EOF";
    case ProxyHeaderError::no_header:
      return "unrecognized protocol header";
    case ProxyHeaderError::no_terminator:
      return "missing protocol header terminator";
    case ProxyHeaderError::bad_protocol:
      return "bad or missing protocol type";
    case ProxyHeaderError::bad_client_address:
      return "bad or missing client address";
    case ProxyHeaderError::bad_server_address:
      return "bad or missing server address";
    case ProxyHeaderError::bad_client_port:
      return "bad or missing client port";
    case ProxyHeaderError::bad_server_port:
      return "bad or missing server port";
    case ProxyHeaderError::bad_version:
      return "unrecognized protocol version";
    case ProxyHeaderError::too_long:
      return "protocol header is too long";
    case ProxyHeaderError::no_ipv4:
      return "IPv4 support is disabled";
    case ProxyHeaderError::no_ipv6:
      return "IPv6 support is disabled";
    case ProxyHeaderError::short_addresses:
      return "short address field";
    case ProxyHeaderError::other_network:
      return "unsupported network protocol";
    case ProxyHeaderError::bad_command:
      return "bad command in proxy header";
  }
  return "unknown";
}

Result<std::optional<ProxyHeader>> parse_proxy_header(std::string_view input, ProxyFamilies families) {
  std::size_t size = 0;
  Result<ProxyHeader> header;
  if (begins(input, kBegin1)) {
    const auto end = input.substr(0, kMaxHeader1).find('\n');
    if (end == std::string_view::npos) {
      if (input.size() >= kMaxHeader1) return fail(ProxyHeaderError::no_terminator);
      return std::nullopt;
    }
    size = end + 1;
    header = parse_line(input.substr(0, end), families);
  } else if (begins(input, kBegin2)) {
    if (input.size() > 12 && (static_cast<unsigned char>(input[12]) & 0xf0) != 0x20)
      return fail(ProxyHeaderError::bad_version);
    if (input.size() < kFixed2) return std::nullopt;
    size = kFixed2 + number(input.substr(14));
    if (size > kMaxProxyHeader) return fail(ProxyHeaderError::too_long);
    if (input.size() < size) return std::nullopt;
    header = parse_binary(input.substr(0, size), families);
  } else {
    return fail(ProxyHeaderError::no_header);
  }
  if (!header) return std::unexpected(std::move(header).error());
  header->size = size;
  return *header;
}

std::size_t proxy_header_part(std::string_view input) {
  std::size_t whole = kMaxHeader1;
  if (const auto end = input.find('\n'); !input.starts_with('\r'))
    whole = std::min(whole, std::min(end, input.size()) + 1);
  else if (input.size() < kFixed2)
    whole = kFixed2;
  else
    whole = kFixed2 + number(input.substr(14));
  return std::min(input.size(), whole);
}

}  // namespace pen::net
