#pragma once
/// The PROXY header, version 2, that goes before the dialogue through a proxy=haproxy:// (lib/net/proxy_header.h reads
/// such headers).
///
/// Source:  the PROXY protocol, section 2.2 (haproxy.org, proxy-protocol.txt). Pure.
#include <cstdint>
#include <string>

#include "lib/base/network.h"

namespace pen::egress {

/// Says that a connection came from `from` (any port) and goes to `to`. Both are of one family.
std::string proxy_v2(const IpAddress& from, const IpAddress& to, std::uint16_t port);

}  // namespace pen::egress
