#pragma once
/// Why a message is where it is, what happens next and when, in plain words: for penstock explain and pentop.
///
/// Use:     Story s = tell(message, routes, {.lifetime = …}, now);   out << text_of(s, now);  j = to_json(s);
/// Input:   the message as qmgr lists it, and for recipients what it explains of their destinations.
/// Words:   sentences of our own; what hosts said is passed on as it is, and made printable by the program that shows
///          it.
/// Pure but for the local time zone; any thread.
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/queue/views/destinations.h"
#include "lib/suite/ipc/queue.h"

namespace pen::views {

/// Where mail for a recipient goes now: the answer to ipc::destinations::Explain.
struct Route {
  ipc::destinations::Explained explained;
  std::vector<Seen> hosts;
  std::string unknown;  // why it could not be asked; empty: it was
};

/// What a recipient waits for. The names in JSON are these words.
enum class Cause : std::uint8_t {
  on_hold,          // for an administrator
  maildrop,         // for pickup
  delivering,       // nothing: it is in hand, or comes to it in a moment
  no_route,         // nobody knows where it goes
  no_source,        // a source of its pool that may send there
  suspended,        // an order or a setting keeps mail from there
  program_down,     // the delivery program cannot be reached
  host_failing,     // no host can be reached; their next try is due later
  limited,          // what its receiver, sender, source or tenant may have: after a complaint, or by a setting
  rate_limited,     // the rate delay of the destination
  class_full,       // a session of the host's class
  busy,             // a connection: as many as may be are in use
  waits_for_share,  // its tenant's share of the active set, or that of its class
  waits_for_time,   // its sender asked for a later time
  put_off_by_host,  // the message's next try: the host did not want it
  next_try,         // the message's next try, for no reason that is known
  returned,         // the notice to the sender
  unknown
};
std::string_view cause_word(Cause cause);

struct RecipientStory {
  std::string address;
  Cause cause = Cause::unknown;
  std::string why;                  // a sentence
  std::string said;                 // the last reply; empty: none yet
  std::string destination;          // transport and next hop; empty: not known
  std::string sender;               // the sender that the next host gets; empty: the message's own
  std::optional<WallTime> at;       // when it is tried next; nullopt: nobody can say
  std::string next;                 // a sentence
  std::vector<std::string> orders;  // what an administrator can do
};

struct Story {
  std::string queue_id;
  ipc::queue::Place place = ipc::queue::Place::active;
  std::string where;                 // a sentence
  std::optional<WallTime> next_try;  // of the message
  std::optional<WallTime> ends;      // when it is returned to its sender
  std::vector<RecipientStory> recipients;
  std::size_t left_out = 0;         // recipients that are left out
  std::vector<std::string> orders;  // for the message
};

struct Lifetimes {
  milliseconds message{432'000'000}, notice{432'000'000};  // maximal_queue_lifetime, bounce_queue_lifetime
};

/// routes: by recipient's address. At most `most` recipients are shown.
Story tell(const ipc::queue::Entry& message, const std::map<std::string, Route>& routes, Lifetimes lifetimes,
           WallTime now, std::size_t most);
/// Lines, each with its end.
std::string text_of(const Story& story, WallTime now);
nlohmann::ordered_json to_json(const Story& story);

}  // namespace pen::views
