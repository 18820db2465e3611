#pragma once
/// The names by which people mean a destination: an address, a host name or a domain, with or without a port.
///
/// Form:    "192.0.2.1", "2001:db8::1", "mx.example.org", "example.org"; with a port "[192.0.2.1]:25",
///          "[mx.example.org]:25" (a host without colons may come without its brackets); ".example.org": every name
///          below it. Lower case, no final dot.
/// Use:     destination_name("[MX.Example.org]")  →  "mx.example.org"
/// Meaning: a name fits a destination by its host or its address, and a route by its next hop or its recipients'
///          domain: names_of() lists what fits.
/// Pure; any thread.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pen::destdb {

inline constexpr std::size_t kMaxName = 300;

/// The one form of a name; nullopt: not a name (empty, too long, white space, "@", control bytes, a bad port, a
/// network: those are for defer_destinations).
std::optional<std::string> destination_name(std::string_view text);

/// The names of a host at an address and port: "host", "[host]:port", ".domain" for each that the host is below,
/// "address", "[address]:port". Empty ones are left out.
std::vector<std::string> names_of(std::string_view host, std::string_view address, std::uint16_t port);
/// The names of a next hop as routing writes it, or of a domain: "example.org", "[relay.example]:587",
/// "unix:private/x", with ".domain" for each that it is below.
std::vector<std::string> names_of_nexthop(std::string_view nexthop);

/// What Facts::shown holds, taken apart: "host[address]:port", "host[path]", "transport".
struct Shown {
  std::string host, address;
  std::uint16_t port = 0;
};
Shown parse_shown(std::string_view shown);

}  // namespace pen::destdb
