#pragma once
/// Ports of TCP services by name: those of known_tcp_ports first, then those of services(5).
///
/// Use:     auto known = parse_tcp_ports("smtp=25, smtps=submissions=465");  know_tcp_ports(*std::move(known));
///          const auto port = tcp_port("smtps");
/// Owns:    what know_tcp_ports() has set, for this process. Until then: the default of known_tcp_ports.
/// Errors:  parse_tcp_ports(): the part that is no name=port.
/// Thread:  any.
/// Source:  postconf(5), known_tcp_ports.
#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace pen {

/// Names are in lower case.
using TcpPorts = std::map<std::string, std::uint16_t, std::less<>>;

std::expected<TcpPorts, std::string> parse_tcp_ports(std::string_view text);
/// The port of a number, a name in `known`, or a name in services(5).
std::optional<std::uint16_t> tcp_port(std::string_view text, const TcpPorts& known);

void know_tcp_ports(TcpPorts known);
/// By what know_tcp_ports() has set.
std::optional<std::uint16_t> tcp_port(std::string_view text);

}  // namespace pen
