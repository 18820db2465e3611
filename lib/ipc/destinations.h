#pragma once
/// Conversation "destinations": pendest looks at what qmgr knows of destinations and suspends them.
///
/// Any number of Entry, Suspended and Explained, then exactly one Done per request. An order is reported done when it
/// is on disk. Looking is for everyone, orders are for root, ourselves and mail_owner.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "lib/ipc/destination.h"
#include "lib/ipc/sessions.h"

namespace pen::ipc::destinations {

inline constexpr std::string_view kName = "destinations";

// tool → qmgr
/// The destinations in memory, and what is suspended by hand. name: only those it fits; empty: all.
struct Find {
  std::uint64_t request = 0;
  std::string name;
  PEN_FIELDS(request, name)
};
enum class Verb : std::uint8_t { suspend, resume, forget };
struct Order {
  std::uint64_t request = 0;
  Verb verb = Verb::suspend;
  std::string name;    // destdb::destination_name()
  std::string reason;  // suspend only
  PEN_FIELDS(request, verb, name, reason)
};
/// Where mail for a recipient would go now. Answered by Explained, one Entry per host, Done.
struct Explain {
  std::uint64_t request = 0;
  std::string recipient;
  std::string sender;
  PEN_FIELDS(request, recipient, sender)
};

// qmgr → tool
enum class Class : std::uint8_t { active, idle, closed, unused, retry, failing, suspended };
struct Entry {
  std::uint64_t request = 0;
  std::uint32_t level = 0;  // of an explanation: 0 is the most preferred
  std::string key;
  std::string shown;
  std::string transport;
  Class classification = Class::unused;
  std::string suspended;  // why
  std::uint32_t connections = 0, limit = 0;
  std::uint64_t in_hand = 0, waiting = 0;
  bool chosen = false;
  std::string facts;            // destdb::Facts, encoded
  milliseconds paused{0};       // until the rate delay allows the next delivery
  bool shared = false;          // with the other hosts of a cluster, now
  std::uint32_t elsewhere = 0;  // their connections, as last heard
  std::string session_class;    // of its host, by its mask; empty: it belongs to none
  bool in_line = false;         // it waits for a session of its class
  PEN_FIELDS(request, level, key, shown, transport, classification, suspended, connections, limit, in_hand, waiting,
             chosen, facts, paused, shared, elsewhere, session_class, in_line)
};
/// A session class that hosts of an explanation belong to.
struct ClassSeen {
  sessions::ClassStatus counts;  // of anvil; of its limits alone if that cannot be asked
  std::string unknown;           // why the counts are not known; empty: they are
  std::uint64_t in_line = 0;     // hosts that wait for a session, those of other routes included
  PEN_FIELDS(counts, unknown, in_line)
};
/// Who answers besides this host's own knowledge (destdb_backend). Comes first; not for orders.
struct Backend {
  std::uint64_t request = 0;
  std::string name;         // "lmdb", "redis"
  std::string server;       // of redis
  bool up = false;          // it is reached
  WallTime since{};         // up or not
  std::string why;          // it is not
  std::uint64_t hosts = 0;  // that share, this one included
  std::string instance;     // what this one is called there
  PEN_FIELDS(request, name, server, up, since, why, hosts, instance)
};
struct Suspended {
  std::uint64_t request = 0;
  std::string name, reason;
  WallTime since{};
  PEN_FIELDS(request, name, reason, since)
};
/// The rule that decides, in the words of docs/scheduler.md.
enum class Rule : std::uint8_t { room, idle, unused, closed, retry, fewest, ride, wait, nothing, unroutable };
struct Explained {
  std::uint64_t request = 0;
  std::string recipient, transport, nexthop;
  seconds valid_for{0};
  Rule rule = Rule::nothing;
  std::string suspended;     // the whole route is, and why
  std::string status, text;  // unroutable: what the sender would be told
  std::uint32_t level = 0;   // the choice fell on
  std::uint64_t pooled = 0;  // jobs that wait for a connection to these hosts
  std::uint32_t free_workers = 0;
  bool transport_up = true;
  std::uint32_t workers = 0, concurrency = 0, recipients = 0;  // limits; 0: none
  milliseconds rate_delay{0};
  std::string tls;  // the level of the first host and what decided it; empty: none anywhere
  std::vector<ClassSeen> classes;
  std::string by_sender;  // the sender-dependent settings that had a say; empty: none
  PEN_FIELDS(request, recipient, transport, nexthop, valid_for, rule, suspended, status, text, level, pooled,
             free_workers, transport_up, workers, concurrency, recipients, rate_delay, tls, classes, by_sender)
};
enum class Outcome : std::uint8_t { ok, not_found, denied, failed };
struct Done {
  std::uint64_t request = 0;
  Outcome outcome = Outcome::ok;
  std::uint64_t count = 0;
  std::string text;
  PEN_FIELDS(request, outcome, count, text)
};

using ToQmgr = std::variant<Find, Order, Explain>;
using FromQmgr = std::variant<Entry, Suspended, Explained, Done, Backend>;

}  // namespace pen::ipc::destinations
