#pragma once
/// The names that people use for a destination: an address, a host name or a domain, with or without a port.
///
/// Form:    "192.0.2.1", "2001:db8::1", "mx.example.org", "example.org"; with a port "[192.0.2.1]:25",
///          "[mx.example.org]:25" (a host without colons needs no brackets); ".example.org": every name below it.
///          Lower case, no final dot. What is shown, "mx.example.org[192.0.2.1]:25",
///          is the address with the port. "source:NAME" is no destination but a source of outgoing mail, which is
///          suspended and resumed likewise.
/// Use:     destination_name("[MX.Example.org]")  →  "mx.example.org"
/// Meaning: a name matches a destination by its host or address, and a route by its next hop or its recipients'
///          domain: names_of() lists the names that match.
/// Pure; any thread.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pen::destdb {

inline constexpr std::size_t kMaxName = 300;

/// The canonical form of a name; nullopt: not a name (empty, too long, white space, "@", control bytes, a bad port, or
/// a network, which belongs into defer_destinations).
std::optional<std::string> destination_name(std::string_view text);

/// What stands before a source's name.
inline constexpr std::string_view kSourceName = "source:";

/// The names of a host at an address and port: "host", "[host]:port", ".domain" for each domain above the host,
/// "address", "[address]:port". Empty ones are left out.
std::vector<std::string> names_of(std::string_view host, std::string_view address, std::uint16_t port);
/// The names of a next hop in the form of routing, or of a domain: "example.org", "[relay.example]:587",
/// "unix:private/x", with ".domain" for each domain above it.
std::vector<std::string> names_of_nexthop(std::string_view nexthop);

/// The parts of Facts::shown: "host[address]:port", "host[path]", "transport".
struct Shown {
  std::string host, address;
  std::uint16_t port = 0;
};
Shown parse_shown(std::string_view shown);

}  // namespace pen::destdb
