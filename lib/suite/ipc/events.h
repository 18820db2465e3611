#pragma once
/// Conversation "events": every program reports to penevents what happens to mail (docs/events.md).
///
/// Nobody waits: what does not fit is counted (lib/suite/events/emitter.h). What is told is kept by the program until
/// penevents says that it has written it, and told again to the next penevents if it never said so.
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
// penevents → all: never sent
struct Nothing {
  std::uint8_t unused = 0;
  PEN_FIELDS(unused)
};
/// The first that knows Written: an older program would hang up.
inline constexpr std::uint32_t kWrittenRevision = 10;
// penevents → all: where the events belong they are now, unless the log says that they cannot be written
struct Written {
  std::uint64_t bytes = 0;  // of Told::events, since the message before; whole frames, in their order
  PEN_FIELDS(bytes)
};

using ToEvents = std::variant<Told>;
using FromEvents = std::variant<Nothing, Written>;

}  // namespace pen::ipc::events
