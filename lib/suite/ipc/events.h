#pragma once
/// Conversation "events": every program reports to penevents what happens to mail (docs/events.md).
///
/// Nothing is answered, and nobody waits: what does not fit is counted (lib/suite/events/emitter.h).
#include <cstdint>
#include <string_view>
#include <variant>

#include "lib/base/codec.h"

namespace pen::ipc::events {

inline constexpr std::string_view kName = "events";

// all → penevents
struct Told {
  std::string_view program, service;  // "smtpd", "submission"
  std::uint64_t pid = 0;
  std::string_view events;    // encoded one after the other, as lib/suite/events/event.h says
  std::uint64_t dropped = 0;  // since the frame before
  PEN_FIELDS(program, service, pid, events, dropped)
};
// penevents → nobody
struct Nothing {
  std::uint8_t unused = 0;
  PEN_FIELDS(unused)
};

using ToEvents = std::variant<Told>;
using FromEvents = std::variant<Nothing>;

}  // namespace pen::ipc::events
