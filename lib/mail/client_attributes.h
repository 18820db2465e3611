#pragma once
/// XFORWARD and XCLIENT: how one mail system tells another from which client a message came.
///
/// Use:     auto attributes = parse_client_attributes("NAME=mx.example ADDR=192.0.2.1 PROTO=ESMTP");
///          for (const auto& line : xforward_commands(offered, client, queue_id)) … send, each one ends in CRLF
/// Form:    NAME=value pairs; values are xtext (RFC 3461 section 4). [UNAVAILABLE] stands for a value that is not
///          known, [TEMPUNAVAIL] for one that is not known now. IPv6 addresses begin with "IPV6:".
/// Bounds:  the caller bounds the line; sent values are cut so that no command exceeds 512 bytes.
/// Source:  Postfix XFORWARD_README, XCLIENT_README. Pure functions.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/mail/envelope.h"

namespace pen::mail {

struct ClientAttribute {
  enum class Kind : std::uint8_t { value, unavailable, temporarily_unavailable };
  std::string name;  // lower case
  Kind kind = Kind::value;
  std::string value;  // decoded; only with Kind::value
};
/// Errors: CommandError::syntax, bad_parameter (context: the parameter).
Result<std::vector<ClientAttribute>> parse_client_attributes(std::string_view args);

/// Reads an ADDR value: returns the numeric address in its usual form, without the IPV6: prefix; empty: not an
/// address.
std::string client_address(std::string_view value);

/// The client's protocol as other programs see it: SMTP or ESMTP, without what Received: adds for TLS and a
/// login; other words as they are.
std::string_view plain_protocol(const Client& client);

/// The attributes of XFORWARD that a peer offers, as bits.
namespace xforward {
inline constexpr std::uint8_t kName = 1, kAddr = 2, kPort = 4, kProto = 8, kHelo = 16, kIdent = 32, kSource = 64;
inline constexpr std::string_view kAll = "NAME ADDR PORT PROTO HELO IDENT SOURCE";
}  // namespace xforward
/// Reads the text after "XFORWARD" in a line of an EHLO reply.
std::uint8_t xforward_offers(std::string_view attributes);
/// The commands that describe the client, for a peer that offers these attributes. ident: the queue id; empty: none
/// yet. local: sends SOURCE=LOCAL, which asks the peer to complete the header as for a local client.
std::vector<std::string> xforward_commands(std::uint8_t offers, const Client& client, std::string_view ident,
                                           bool local);

}  // namespace pen::mail
