#pragma once
/// The facts of a message: what is said of it as a whole, and stays true on its way from the receiver to the delivery
/// program.
///
/// Use:     struct Envelope : MessageFacts { … };     job.facts() = envelope.facts();
///          Whatever describes a whole message derives from MessageFacts. A program that passes a message on copies all
///          of its facts at once.
/// Rules:   plain data. MessageFacts has no codec of its own: each struct that is stored or sent lists the facts in its
///          PEN_FIELDS, in the order that its bytes have had from the first version on.
/// Adding:  a field is named in MessageFacts, and at the end of the PEN_FIELDS of each message of lib/suite/ipc that
///          has an envelope, and of ipc::delivery::Job (docs/hacking.md, "Add a fact of a message").
/// Source:  RFC 3461 (DSN parameters), RFC 4865 (release), RFC 6152, RFC 6531, RFC 6710
///          (priority), RFC 8689, docs/origins.md "The spool" (body facts kept with
///          the envelope).
#include <cstdint>
#include <string>

#include "lib/base/codec.h"
#include "lib/base/time.h"

namespace pen::mail {

/// RFC 6152, RFC 3030: the BODY= parameter.
enum class BodyType : std::uint8_t { unspecified, seven_bit, eight_bit_mime, binary_mime };

/// RFC 3461 section 4.3.
enum class Ret : std::uint8_t { unspecified, full, headers };

/// What the sender demands of TLS on the way (RFC 8689). yes: the REQUIRETLS parameter of MAIL. no: a header field
/// "TLS-Required: No", which waives what recipients' policies would demand.
enum class RequireTls : std::uint8_t { unspecified, yes, no };

/// What a message is sent for. traced: it is delivered as usual, and its sender gets a report on the first try for
/// each recipient (sendmail -v). probe: it is not delivered; its sender gets a report on what would happen to such mail
/// (sendmail -bv). verification: a probe whose answer goes to the program verify (docs/address-verification.md).
enum class Purpose : std::uint8_t { mail, traced, probe, verification };
/// It is not delivered: what would happen is all that is wanted.
constexpr bool is_probe(Purpose purpose) { return purpose == Purpose::probe || purpose == Purpose::verification; }

/// Priorities of mail (RFC 6710): -9, the least urgent, to 9. 0 is that of mail that says nothing.
inline constexpr std::int8_t kLeastPriority = -9, kMostPriority = 9;
/// Bytes of MessageFacts::release_request.
inline constexpr std::size_t kMaxReleaseRequest = 64;

/// Bytes of a tenant's name (lib/receive/tenant): as many as a domain may have.
inline constexpr std::size_t kMaxTenant = 255;

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

/// Addresses are in external form without angle brackets; the null sender is "".
struct MessageFacts {
  WallTime arrival{};
  std::string sender;
  std::string envid;  // RFC 3461, decoded from xtext
  Ret ret = Ret::unspecified;
  BodyType body_type = BodyType::unspecified;
  bool smtputf8 = false;
  RequireTls requiretls = RequireTls::unspecified;
  Client client;
  BodyFacts body;
  Purpose purpose = Purpose::mail;  // a message that was traced is mail as soon as its sender got the report
  std::string verp;                 // the two delimiters, if each recipient gets it from an address of its own (verp.h)
  std::string tenant;               // with its shares and limits (docs/tenants.md); empty: no tenant
  std::int8_t priority = 0;         // kLeastPriority to kMostPriority (docs/priorities.md)
  WallTime release{};               // nothing is sent before (RFC 4865); the epoch: it may be sent at once
  std::string release_request;      // what the client asked for: "for;SECONDS", "until;DATE-TIME"; empty: nothing
  std::string signer;               // the domain that signs it here (DKIM), unless it is the sender's; empty: none

  /// When its time in the queue began: it has not been late before.
  WallTime due_from() const { return release > arrival ? release : arrival; }

  /// The facts alone of what derives from them.
  MessageFacts& facts() { return *this; }
  const MessageFacts& facts() const { return *this; }
  bool operator==(const MessageFacts&) const = default;
};

}  // namespace pen::mail
