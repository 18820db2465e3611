#pragma once
/// Conversation "sessions": programs that hold SMTP sessions take a lease of anvil for each that belongs to a session
/// class, and give it back when the session ends.
///
/// Leases:  belong to the connection of their holder: when it ends, by whatever cause, they are free. A holder that
///          lost anvil takes them again with `held`, which is always granted and not answered: the sessions exist.
/// Numbers: a lease's number is its holder's choice, unique on the connection; 0 is no lease.
/// Limits:  anvil's session_classes decide, not the holder's.
/// Source:  docs/origins.md "Session classes"; docs/session-classes.md. (What clients do per time unit is a
///          conversation of its own on the same socket: lib/suite/ipc/clients.h.)
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/base/codec.h"

namespace pen::ipc::sessions {

inline constexpr std::string_view kName = "sessions";

enum class Direction : std::uint8_t { incoming, outgoing };

// holder → anvil
/// First, once: holds sessions. listens: wants AllFull.
/// again: had a connection to an anvil before. Then others had too, and shall tell what they hold before anybody is
/// granted more.
struct Begin {
  bool listens = false;
  bool again = false;
  PEN_FIELDS(listens, again)
};
/// Answered by Taken, but for `held`.
struct Take {
  std::uint64_t lease = 0;
  Direction direction = Direction::incoming;
  std::string name;     // of the other end, when it is sure; else empty
  std::string address;  // numeric
  bool held = false;    // the session exists: it counts, whatever the limit
  PEN_FIELDS(lease, direction, name, address, held)
};
/// Also of a lease that was asked for and not answered: then it is wanted no more. One that is not there is no error:
/// the holder may have given up what was refused.
struct Release {
  std::uint64_t lease = 0;
  PEN_FIELDS(lease)
};
/// Answers Wanted. closing: an idle connection of the class is being closed; its Release follows.
struct Yielded {
  std::uint64_t ask = 0;
  bool closing = false;
  PEN_FIELDS(ask, closing)
};
/// A tool's question, instead of Begin. Answered by Status.
struct AskStatus {
  std::uint64_t request = 0;
  PEN_FIELDS(request)
};

// anvil → holder
struct Taken {
  std::uint64_t lease = 0;
  bool granted = false;
  std::string mask;         // names the class; empty: it belongs to none
  std::uint32_t limit = 0;  // that refused it
  PEN_FIELDS(lease, granted, mask, limit)
};
/// The class, in which outgoing leases were refused, has room again: ask anew. Once for all that were refused since.
struct Room {
  std::string mask;
  PEN_FIELDS(mask)
};
/// An incoming session wants a place in a class of which this holder has outgoing leases. Answered by Yielded.
struct Wanted {
  std::uint64_t ask = 0;
  std::string mask;
  PEN_FIELDS(ask, mask)
};
/// Every class holds its refuse limit, or no longer.
struct AllFull {
  bool full = false;
  PEN_FIELDS(full)
};
struct ClassStatus {
  std::string mask;
  std::uint32_t total = 0, refuse = 0;
  std::uint64_t incoming = 0, outgoing = 0;
  std::uint64_t refused = 0;  // incoming, since anvil started
  bool outgoing_waits = false;
  PEN_FIELDS(mask, total, refuse, incoming, outgoing, refused, outgoing_waits)
};
struct Status {
  std::uint64_t request = 0;
  std::vector<ClassStatus> classes;
  std::uint64_t holders = 0;
  PEN_FIELDS(request, classes, holders)
};

using ToAnvil = std::variant<Begin, Take, Release, Yielded, AskStatus>;
using FromAnvil = std::variant<Taken, Room, Wanted, AllFull, Status>;

}  // namespace pen::ipc::sessions
