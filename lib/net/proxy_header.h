#pragma once
/// The header of the PROXY protocol, versions 1 and 2: what a proxy says before anything else about the connection for
/// which it speaks.
///
/// Use:     auto header = parse_proxy_header(bytes_so_far, families);
///          if (header && !*header) … the header continues …
/// Takes:   TCP over IPv4 and IPv6, and the command LOCAL. Not UNKNOWN and other protocols: a client without an address
///          would pass by everything that goes by addresses. TLVs of version 2 are passed over.
/// Bounds:  107 bytes (version 1), kMaxProxyHeader (version 2).
/// Errors:  ProxyHeaderError, in Postfix's words.
/// Source:  the PROXY protocol (haproxy.org, proxy-protocol.txt); Postfix haproxy_srvr(3).
#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/base/network.h"
#include "lib/base/result.h"

namespace pen::net {

/// Certificates and other TLVs make a header longer than the 536 bytes of plain ones; beyond this it is no header.
inline constexpr std::size_t kMaxProxyHeader = 4096;

enum class ProxyHeaderError {
  end_of_input = 1,
  no_header,
  no_terminator,
  bad_protocol,
  bad_client_address,
  bad_server_address,
  bad_client_port,
  bad_server_port,
  bad_version,
  too_long,
  no_ipv4,
  no_ipv6,
  short_addresses,
  other_network,
  bad_command,
};
std::string_view error_module(ProxyHeaderError);
std::string_view describe(ProxyHeaderError);

struct ProxyHeader {
  std::size_t size = 0;  // of the header, in bytes
  /// The proxy speaks for itself (a health check): the connection's own addresses count, and there are none here.
  bool local = false;
  IpAddress client, server;  // server: where the client connected to
  std::uint16_t client_port = 0, server_port = 0;
};

/// The address families that this host speaks (inet_protocols).
struct ProxyFamilies {
  bool ipv4 = true, ipv6 = true;
};

/// nullopt: the header is not complete. Bytes behind the header are not looked at.
Result<std::optional<ProxyHeader>> parse_proxy_header(std::string_view input, ProxyFamilies families = {});
/// How many bytes at the beginning of the input certainly belong to the header: a caller that reads no more takes
/// nothing of what follows.
std::size_t proxy_header_part(std::string_view input);

}  // namespace pen::net
