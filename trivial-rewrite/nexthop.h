#pragma once
/// Parses the next hop of an SMTP or LMTP transport, as maps and settings have it.
///
/// Form:    "example.org" (MX hosts), "[mx.example.org]" (this host, no MX), either with ":port" or ":service" behind;
///          LMTP also "unix:path" and "inet:host:port". Several, separated by commas or blanks, are tried in order.
/// Source:  Postfix transport(5), relayhost, smtp(8), lmtp(8). Pure.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pen::rewrite {

struct NextHop {
  std::string text;       // as written
  std::string host;       // name or numeric address, without brackets, lower case
  std::string unix_path;  // LMTP over a Unix socket; host is empty then
  unsigned short port = 0;
  bool explicit_port = false;
  bool mx = false;       // look MX hosts up
  bool numeric = false;  // host is an address
  std::string service;   // for SRV records: the port as written or as set; empty: the host is in brackets or numeric
};
/// All next hops of the text; nullopt: one is invalid (no host, no such port or service). lmtp: the program that will
/// connect; default_port: for next hops without port; default_service: the text of that setting.
std::optional<std::vector<NextHop>> parse_nexthops(std::string_view text, bool lmtp, unsigned short default_port,
                                                   std::string_view default_service = {});
/// Parses "25" or a service name of /etc/services; nullopt: neither. May read a file: for start-up and rare explicit
/// names.
std::optional<unsigned short> parse_port(std::string_view text);

}  // namespace pen::rewrite
