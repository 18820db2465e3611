#pragma once
/// The Milter protocol as its bytes: packets, negotiation, replies. No I/O.
///
/// Use:     append_packet(out, Command::helo, c_string("client.example"));
///          auto size = packet_size(four_bytes);  … read `size` bytes …  Packet p = parse_packet(bytes);
///          auto agreed = Negotiation::parse(p.data, offer);   auto edit = parse_edit(p);
/// Form:    uint32 length (of what follows, big endian), one byte for the command or reply, data. Strings end in NUL.
/// Bounds:  kMaxData for what we send; the caller bounds what it reads.
/// Errors:  MilterError.
/// Source:  libmilter's mfdef.h and mfapi.h (Sendmail 8.17); Postfix MILTER_README. docs/milter.md.
/// Thread:  any; pure.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace pen::milter {

enum class MilterError {
  malformed = 1,  // a packet that the protocol does not know in this place
  incompatible,   // versions or actions that do not fit
  bad_reply,      // an SMTP reply that none can be
  lost,           // the connection
  timed_out,      // the filter did not answer in time
  too_much,       // more edits than the bounds allow
  bad_setting,    // an endpoint that cannot be read
};
inline std::string_view error_module(MilterError) { return "milter"; }
std::string_view describe(MilterError e);

// libmilter refuses a packet with more data.
inline constexpr std::size_t kMaxData = 65535;
inline constexpr std::uint32_t kVersion = 6;

enum class Command : char {
  abort = 'A',
  body = 'B',
  connect = 'C',
  data = 'T',
  end_of_header = 'N',
  end_of_message = 'E',
  header = 'L',
  helo = 'H',
  mail = 'M',
  macros = 'D',
  negotiate = 'O',
  quit = 'Q',
  rcpt = 'R',
  unknown = 'U',
};

/// What a filter may ask for.
namespace action {
inline constexpr std::uint32_t kAddHeaders = 1, kChangeBody = 2, kAddRecipients = 4, kRemoveRecipients = 8,
                               kChangeHeaders = 0x10, kQuarantine = 0x20, kChangeSender = 0x40,
                               kAddRecipientsWithParameters = 0x80, kSetMacros = 0x100;
inline constexpr std::uint32_t kAll = 0x1ff;
/// With none of these a filter only reads.
inline constexpr std::uint32_t kEdits = kAddHeaders | kChangeBody | kAddRecipients | kRemoveRecipients |
                                        kChangeHeaders | kChangeSender | kAddRecipientsWithParameters;
}  // namespace action

namespace protocol {
inline constexpr std::uint32_t kSkip = 0x400, kRejectedRecipients = 0x800, kLeadingSpace = 0x100000;
inline constexpr std::uint32_t kAll = 0x1fffff;
}  // namespace protocol

/// The events of a session and of a message.
enum class Stage : std::uint8_t {
  connect,
  helo,
  mail,
  rcpt,
  data,
  header,
  end_of_header,
  body,
  end_of_message,
  unknown,
};
inline constexpr std::size_t kStages = static_cast<std::size_t>(Stage::unknown) + 1;

struct StageFacts {
  Command command;
  std::uint32_t omit;      // protocol bit: the filter does not want this event; 0: it always gets it
  std::uint32_t no_reply;  // protocol bit: the filter will not answer; 0: it always does
  std::uint32_t since;     // the version that has this event
  int macros;              // this stage's number in a filter's own list of macros; -1: none
  std::string_view word;   // for the log
};
const StageFacts& facts_of(Stage stage);

/// Appends one packet.
void append_packet(std::string& out, Command command, std::string_view data);
/// The four bytes before a packet: the size of the rest. Errors: malformed (0).
Result<std::uint32_t> packet_size(std::string_view bytes);

struct Packet {
  char code = 0;
  std::string_view data;
};
/// bytes: what packet_size() announced; at least one.
inline Packet parse_packet(std::string_view bytes) { return {bytes.front(), bytes.substr(1)}; }

/// Text with the NUL that ends it; what follows a NUL inside is left out, for the filter could not see it.
std::string c_string(std::string_view text);

/// What we offer: milter_protocol.
struct Offer {
  std::uint32_t version = kVersion;  // 2 to 6
  bool no_header_reply = false;      // a filter of version 2 to 5 may leave out replies to fields
  std::string data() const;
};

/// What client and filter agreed on.
struct Negotiation {
  std::uint32_t version = 0, actions = 0, protocol = 0;
  /// The macros that the filter wants at a stage, in place of ours; by StageFacts::macros.
  std::array<std::optional<std::vector<std::string>>, 7> macros;

  /// The filter's answer to the offer. Errors: malformed; incompatible: a newer version than ours, actions or bits
  /// that were not offered.
  static Result<Negotiation> parse(std::string_view data, const Offer& offer);

  bool wants(Stage stage) const;
  bool replies(Stage stage) const;
  bool edits() const { return (actions & action::kEdits) != 0; }
  /// Values of header fields go with the blank behind the colon.
  bool leading_space() const { return (protocol & protocol::kLeadingSpace) != 0; }
  bool wants_rejected_recipients() const { return (protocol & protocol::kRejectedRecipients) != 0; }
};

/// A change of the message that a filter asks for at its end.
struct Edit {
  enum class Kind : std::uint8_t {
    add_header,
    insert_header,
    change_header,
    replace_body,  // a piece
    add_recipient,
    remove_recipient,
    change_sender,
    quarantine,
  };
  Kind kind = Kind::add_header;
  std::uint32_t index = 0;  // of headers
  std::string name;         // of a header field; an address
  std::string value;        // of a header field, parameters of an address, a reason, a piece of the body
};
/// nullopt: this reply is no edit. Errors: malformed; incompatible: an edit that the filter may not ask for.
Result<std::optional<Edit>> parse_edit(const Packet& packet, std::uint32_t actions);

/// The end of a filter's answer.
enum class Answer : std::uint8_t {
  go_on,
  accept,   // no more events: of the session at connect and helo, else of the message
  skip,     // no more events of this kind
  discard,  // take the message and drop it
  refuse,   // with the reply
};
struct Final {
  Answer answer = Answer::go_on;
  std::vector<std::string> reply;  // the SMTP reply, each line without CRLF; only with refuse
};
/// nullopt: the filter is still at work ('p': progress). Errors: malformed, bad_reply.
Result<std::optional<Final>> parse_final(const Packet& packet);

/// An SMTP reply that a filter gave: lines of "550 5.7.1 text" or "550-5.7.1 text", joined by CRLF. Errors: bad_reply:
/// no refusal (4xx, 5xx), codes that differ, an enhanced code of another class, no text, control characters.
Result<std::vector<std::string>> parse_reply(std::string_view text);

}  // namespace pen::milter
