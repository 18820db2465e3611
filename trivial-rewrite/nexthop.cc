#include "trivial-rewrite/nexthop.h"

#include "lib/base/tcp_port.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"

namespace pen::rewrite {
namespace {

constexpr std::size_t kMaxNextHops = 50;

std::optional<NextHop> parse_one(std::string_view text, bool lmtp, unsigned short default_port,
                                 std::string_view default_service) {
  NextHop hop;
  hop.port = default_port;
  if (lmtp && istarts_with(text, "unix:")) {
    hop.unix_path = text.substr(5);
    if (hop.unix_path.empty()) return std::nullopt;
    return hop;
  }
  if (lmtp && istarts_with(text, "inet:")) text.remove_prefix(5);
  hop.text = text;
  std::string_view host = text, port;
  bool bracketed = false;
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    bracketed = true;
    host = text.substr(1, close - 1);
    std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') return std::nullopt;
    if (!rest.empty()) port = rest.substr(1);
    if (!rest.empty() && port.empty()) return std::nullopt;
    if (istarts_with(host, "ipv6:")) host.remove_prefix(5);
  } else if (const auto colon = text.rfind(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (port.empty()) return std::nullopt;
  }
  if (host.empty() || host.size() > mail::kMaxDomain || host.find(':') != std::string_view::npos) {
    if (!mail::valid_ipv6(host) || !bracketed) return std::nullopt;
  }
  if (!port.empty()) {
    const auto number = parse_port(port);
    if (!number) return std::nullopt;
    hop.port = *number;
    hop.explicit_port = true;
  }
  hop.host = to_lower(host);
  hop.numeric = mail::valid_address(hop.host);
  hop.mx = !bracketed && !lmtp && !hop.numeric;
  if (!bracketed && !hop.numeric) hop.service = to_lower(port.empty() ? default_service : port);
  return hop;
}

}  // namespace

std::optional<std::vector<NextHop>> parse_nexthops(std::string_view text, bool lmtp, unsigned short default_port,
                                                   std::string_view default_service) {
  std::vector<NextHop> hops;
  for (const auto part : split(text)) {
    auto hop = parse_one(part, lmtp, default_port, default_service);
    if (!hop || hops.size() >= kMaxNextHops) return std::nullopt;
    hops.push_back(std::move(*hop));
  }
  if (hops.empty()) return std::nullopt;
  return hops;
}

std::optional<unsigned short> parse_port(std::string_view text) { return tcp_port(text); }

}  // namespace pen::rewrite
