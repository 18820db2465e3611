#pragma once
/// Conversation "clients": smtpd has anvil count what clients do, for the smtpd_client_*_limit settings.
///
/// Client:  "service:address", where the service is the one of master.cf and the address may stand for a network:
///          counts are per service, as in Postfix.
/// Live:    the sessions of a client belong to the connection that reported them (Enter): when it ends, by whatever
///          cause, they are over. A program that lost anvil reports its live sessions again, and repeats the
///          questions without an answer.
/// Limits:  are smtpd's, as is what it does with clients that exceed them; anvil counts.
/// Source:  Postfix anvil(8).
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "lib/base/codec.h"

namespace pen::ipc::clients {

inline constexpr std::string_view kName = "clients";

/// tls: a handshake that resumed no session.
enum class Event : std::uint8_t { connection, message, recipient, auth, tls };
inline constexpr std::size_t kEvents = 5;

// smtpd → anvil
/// Answered by Counted. look: without counting one.
struct Count {
  std::uint64_t request = 0;
  Event event = Event::connection;
  bool look = false;
  std::string client;
  PEN_FIELDS(request, event, look, client)
};
/// So many sessions of the client have begun.
struct Enter {
  std::string client;
  std::uint32_t sessions = 1;
  PEN_FIELDS(client, sessions)
};
/// One is over.
struct Leave {
  std::string client;
  PEN_FIELDS(client)
};
// anvil → smtpd
struct Counted {
  std::uint64_t request = 0;
  std::uint32_t rate = 0;  // of this event in the time unit, this one included; 0: not counted
  std::uint32_t live = 0;  // sessions, of all processes
  PEN_FIELDS(request, rate, live)
};

using ToAnvil = std::variant<Count, Enter, Leave>;
using FromAnvil = std::variant<Counted>;

}  // namespace pen::ipc::clients
