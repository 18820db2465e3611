#include "lib/mail/client_attributes.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "lib/base/text.h"
#include "lib/mail/command.h"

namespace pen::mail {
namespace {

constexpr std::string_view kUnavailable = "[UNAVAILABLE]", kTemporarily = "[TEMPUNAVAIL]";
// Four values of this size, with their names, fit into one command. Postfix permits 255.
constexpr std::size_t kMaxValue = 100;
constexpr std::size_t kMaxAttributes = 32;

struct Row {
  std::string_view name;
  std::uint8_t bit;
};
constexpr std::array<Row, 7> kRows{{{"NAME", xforward::kName},
                                    {"ADDR", xforward::kAddr},
                                    {"PORT", xforward::kPort},
                                    {"PROTO", xforward::kProto},
                                    {"HELO", xforward::kHelo},
                                    {"IDENT", xforward::kIdent},
                                    {"SOURCE", xforward::kSource}}};

/// RFC 3461 xtext, never cut inside an encoded character.
std::string encoded(std::string_view value) {
  std::string out;
  for (const char c : value) {
    const std::string one = encode_xtext(std::string_view(&c, 1));
    if (out.size() + one.size() > kMaxValue) break;
    out += one;
  }
  return out;
}

std::string value_of(std::uint8_t bit, const Client& client, std::string_view ident, bool local) {
  switch (bit) {
    case xforward::kName:
      return client.name == "unknown" ? std::string() : client.name;
    case xforward::kAddr:
      if (client_address(client.address).empty()) return {};  // "unknown", which XCLIENT may say
      return (client.address.find(':') != std::string::npos ? "IPV6:" : "") + client.address;
    case xforward::kPort:
      return client.port == 0 ? std::string() : std::to_string(client.port);
    case xforward::kProto:
      return client.address.empty() ? std::string() : std::string(plain_protocol(client));
    case xforward::kHelo:
      return client.helo;
    case xforward::kIdent:
      return std::string(ident);
    default:
      return local ? "LOCAL" : "REMOTE";
  }
}

}  // namespace

std::string_view plain_protocol(const Client& client) {
  const std::string_view protocol = client.protocol;
  return protocol.starts_with("ESMTP") ? protocol.substr(0, 5) : protocol;
}

Result<std::vector<ClientAttribute>> parse_client_attributes(std::string_view args) {
  std::vector<ClientAttribute> out;
  for (const auto& word : split(args, " \t")) {
    const std::string_view text = word;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0 || out.size() == kMaxAttributes)
      return fail(CommandError::syntax, std::string(text));
    ClientAttribute a;
    a.name = to_lower(text.substr(0, equals));
    const std::string_view value = text.substr(equals + 1);
    if (iequals(value, kUnavailable)) {
      a.kind = ClientAttribute::Kind::unavailable;
    } else if (iequals(value, kTemporarily)) {
      a.kind = ClientAttribute::Kind::temporarily_unavailable;
    } else {
      auto decoded = decode_xtext(value);
      if (!decoded) return fail(CommandError::bad_parameter, a.name);
      a.value = printable(*decoded, 255);
    }
    out.push_back(std::move(a));
  }
  if (out.empty()) return fail(CommandError::syntax, {});
  return out;
}

std::string client_address(std::string_view value) {
  const bool ipv6 = istarts_with(value, "IPV6:");
  if (ipv6) value.remove_prefix(5);
  const std::string text(value);
  const int family = ipv6 || text.find(':') != std::string::npos ? AF_INET6 : AF_INET;
  std::array<unsigned char, 16> binary{};
  std::array<char, INET6_ADDRSTRLEN> shown{};
  if (::inet_pton(family, text.c_str(), binary.data()) != 1 ||
      ::inet_ntop(family, binary.data(), shown.data(), shown.size()) == nullptr)
    return {};
  return shown.data();
}

std::uint8_t xforward_offers(std::string_view attributes) {
  std::uint8_t bits = 0;
  for (const auto& word : split(attributes, " \t"))
    for (const Row& row : kRows)
      if (iequals(row.name, word)) bits = static_cast<std::uint8_t>(bits | row.bit);
  return bits;
}

std::vector<std::string> xforward_commands(std::uint8_t offers, const Client& client, std::string_view ident,
                                           bool local) {
  std::vector<std::string> commands;
  // Two commands, as Postfix sends them: a server that knows only NAME, ADDR and PORT gets only the first.
  constexpr std::uint8_t kFirst = xforward::kName | xforward::kAddr | xforward::kPort;
  for (const bool first : {true, false}) {
    std::string line;
    for (const Row& row : kRows) {
      if ((offers & row.bit) == 0 || ((row.bit & kFirst) != 0) != first) continue;
      const std::string value = value_of(row.bit, client, ident, local);
      line += ' ';
      line += row.name;
      line += '=';
      line += value.empty() ? std::string(kUnavailable) : encoded(value);
    }
    if (!line.empty()) commands.push_back("XFORWARD" + line + "\r\n");
  }
  return commands;
}

}  // namespace pen::mail
