#pragma once
/// Which program may hold which conversation, and what its envelopes may carry. docs/who-may-talk.md shows both
/// tables, and who_may_talk_test.cc compares it with them.
///
/// Use:     may_hold("smtpd", enqueue::kName)                  // asked by both ends (channel.cc)
///          forbidden_field(envelope, carrier_of("smtpd"))     // asked by programs that queue mail and by qmgr
/// Rules:   root may hold every conversation and set every field. A client's badge (badges.h) or its account says
///          which program it is.
/// Pure; any thread.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lib/mail/envelope.h"

namespace pen::ipc {

/// The programs that serve a conversation and those that may open it, besides root: names with blanks between them;
/// "*": all programs that master starts.
struct Partners {
  std::string_view conversation, servers, clients;
  bool users = false;  // other accounts as well, with the rights that settings give them
};
std::span<const Partners> all_partners();
/// False for a conversation that has no row.
bool may_hold(std::string_view program, std::string_view conversation);
bool open_to_users(std::string_view conversation);
/// There is a conversation between the two.
bool may_talk(std::string_view client, std::string_view server);

/// What an envelope carries from certain programs alone.
enum class EnvelopeField : std::uint16_t {
  error_transport = 1,  // "error:…": a failure that the sender gets a notice of
  transport = 2,        // any other
  filter = 4,
  hold = 8,
  traced = 16,  // these three: the purpose
  probe = 32,
  verification = 64,
  discharges = 128,
  verp = 256,
  tenant = 512,
  priority = 1024,
  release = 2048,  // it waits for its time
  signer = 4096,
};
struct Carrier {
  std::string_view program;
  std::uint16_t fields = 0;  // EnvelopeField
  bool may(EnvelopeField field) const { return (fields & static_cast<std::uint16_t>(field)) != 0; }
};
/// For root, and for clients where no program has a badge.
inline constexpr Carrier kAnyField{"", 0xffff};
std::span<const Carrier> all_carriers();
/// A program without a row may set none.
Carrier carrier_of(std::string_view program);
/// The first field that the envelope has and may not have; empty: none.
std::string_view forbidden_field(const mail::Envelope& envelope, const Carrier& carrier);
std::string_view name_of(EnvelopeField field);
/// What is said of it.
std::string refused_field(const Carrier& carrier, std::string_view field);

}  // namespace pen::ipc
