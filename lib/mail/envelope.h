#pragma once
/// A message apart from its content: its sender, its recipients, and the facts about the body that delivery needs.
///
/// Use:     smtpd, bounce and local fill one in; qmgr stores it; delivery programs get the parts they need.
/// Rules:   plain data, encodable (lib/base/codec.h); addresses are in external form without angle brackets, the
///          null sender is "". The receivers enforce limits. A struct that is sent or stored at top level grows only at
///          its end; nested structs change only with the version of the conversation or the log.
/// Source:  RFC 5321 section 2.3.1, RFC 3461 (DSN parameters), RFC 6531, docs/origins.md "The spool" (body facts kept
///          with the envelope).
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/codec.h"
#include "lib/base/time.h"

namespace pen::mail {

/// RFC 6152, RFC 3030: the BODY= parameter.
enum class BodyType : std::uint8_t { unspecified, seven_bit, eight_bit_mime, binary_mime };

/// RFC 3461 section 4.1 NOTIFY, as bits; 0: not given.
namespace notify {
inline constexpr std::uint8_t kSuccess = 1, kFailure = 2, kDelay = 4, kNever = 8;
}
/// RFC 3461 section 4.3.
enum class Ret : std::uint8_t { unspecified, full, headers };

/// What the sender demands of TLS on the way (RFC 8689). yes: the REQUIRETLS parameter of MAIL. no: a header field
/// "TLS-Required: No", which waives what recipients' policies would demand.
enum class RequireTls : std::uint8_t { unspecified, yes, no };

/// What a message is sent for. traced: it is delivered as usual, and its sender gets a report on the first try for
/// each recipient (sendmail -v). probe: it is not delivered; its sender is told what would happen to such mail
/// (sendmail -bv).
enum class Purpose : std::uint8_t { mail, traced, probe };

struct Recipient {
  std::string address;  // where it is delivered now, after rewriting and aliases
  // As the client gave it (after the first rewriting); empty: the same as address.
  std::string original;
  std::string orcpt;  // RFC 3461 "addr-type;xtext", as received; empty: none
  std::uint8_t notify = 0;
  PEN_FIELDS(address, original, orcpt, notify)
  bool operator==(const Recipient&) const = default;
  const std::string& shown_original() const { return original.empty() ? address : original; }
};

/// Facts about the stored content, found once while it arrives, so that delivery need not copy or compute anything.
/// The content is stored as on the wire: CRLF line ends, not dot-stuffed, ends with CRLF (unless binary_mime).
struct BodyFacts {
  std::uint64_t size = 0;          // bytes, header included
  std::uint64_t header_size = 0;   // up to and including the empty line, or size if there is none
  std::uint64_t longest_line = 0;  // bytes without CRLF
  bool eight_bit_header = false;
  bool eight_bit_body = false;
  bool nul = false;
  PEN_FIELDS(size, header_size, longest_line, eight_bit_header, eight_bit_body, nul)
  bool operator==(const BodyFacts&) const = default;
};

/// The client that the message came from.
struct Client {
  std::string name;     // verified name or "unknown"
  std::string address;  // numeric; empty for local submission
  std::uint16_t port = 0;
  std::string helo;
  std::string protocol;  // "SMTP", "ESMTP", "ESMTPS", "ESMTPSA", … (RFC 3848); "local"
  std::string reverse_name;
  std::string sasl_method, sasl_username, sasl_sender;
  PEN_FIELDS(name, address, port, helo, protocol, reverse_name, sasl_method, sasl_username, sasl_sender)
  bool operator==(const Client&) const = default;
};

/// Which reports of which message a notification (bounce, delay, success) discharges.
struct Discharge {
  std::string queue_id;
  std::vector<std::uint32_t> ordinals;  // of that message's recipients
  std::uint8_t kind = 0;                // ipc::bounce::Kind
  PEN_FIELDS(queue_id, ordinals, kind)
  bool operator==(const Discharge&) const = default;
};

struct Envelope {
  std::string queue_id;
  WallTime arrival{};
  std::string sender;
  std::vector<Recipient> recipients;
  std::string envid;  // RFC 3461, decoded from xtext
  Ret ret = Ret::unspecified;
  BodyType body_type = BodyType::unspecified;
  bool smtputf8 = false;
  RequireTls requiretls = RequireTls::unspecified;
  Client client;
  BodyFacts body;
  std::string message_id;  // for the log
  std::vector<Discharge> discharges;
  // "transport:nexthop" for the whole message, whatever the routing rules say. Without nexthop: the recipients'
  // domains. "": none.
  std::string transport;
  // The content filter, as `transport`, in place of the recipients' routes. Without nexthop: default_filter_nexthop,
  // then the recipients' domains. "": none.
  std::string filter;
  bool hold = false;                // put it on hold first; unset once it is on hold
  Purpose purpose = Purpose::mail;  // `traced` is unset once its sender was told
  PEN_FIELDS(queue_id, arrival, sender, recipients, envid, ret, body_type, smtputf8, requiretls, client, body,
             message_id, discharges, transport, filter, hold, purpose)
  bool operator==(const Envelope&) const = default;
};

}  // namespace pen::mail
