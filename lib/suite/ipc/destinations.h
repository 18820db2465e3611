#pragma once
/// Conversation "destinations": pendest looks at what qmgr knows of destinations and suspends them.
///
/// Any number of Entry, Suspended and Explained, then exactly one Done per request. An order is reported done when it
/// is on disk. Looking is for everyone, orders are for root, ourselves and mail_owner.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "lib/suite/ipc/destination.h"
#include "lib/suite/ipc/sessions.h"

namespace pen::ipc::destinations {

inline constexpr std::string_view kName = "destinations";

// tool → qmgr
/// The destinations in memory, and what is suspended by hand. name: only those it fits; empty: all. troubled: only so
/// many of those that failed last or are suspended, those that failed most often first, and as many suspensions; Done
/// counts them all. 0: no such choice. limits: also a LimitSeen for each limit of domains, sources and tenants, whose
/// name, as "tenant:NAME", may be asked for as well; an older tool does not know that answer.
struct Find {
  std::uint64_t request = 0;
  std::string name;
  std::uint32_t troubled = 0;
  bool limits = false;
  PEN_FIELDS(request, name, troubled, limits)
};
enum class Verb : std::uint8_t { suspend, resume, forget, rate };
struct Order {
  std::uint64_t request = 0;
  Verb verb = Verb::suspend;
  std::string name;     // destdb::destination_name()
  std::string reason;   // suspend only
  std::string rate;     // rate only: N/s, N/m, N/h; empty: the order ends
  std::string by = {};  // the user who ordered it, where the tool acts for another; for events
  PEN_FIELDS(request, verb, name, reason, rate, by)
};
/// Where mail for a recipient would go now. Answered by Explained, one Entry per host, Done.
struct Explain {
  std::uint64_t request = 0;
  std::string recipient;
  std::string sender;
  std::string tenant = {};  // of the mail; empty: it has none, or it is not known
  std::string signer = {};  // mail::MessageFacts::signer
  PEN_FIELDS(request, recipient, sender, tenant, signer)
};

/// The sources of outgoing mail. Answered by one SourceSeen each, its SourceGroups behind it, Done. Orders name one
/// "source:NAME".
struct FindSources {
  std::uint64_t request = 0;
  std::string name;  // only this; empty: all
  PEN_FIELDS(request, name)
};

// qmgr → tool
enum class Class : std::uint8_t { active, idle, closed, unused, retry, failing, suspended };
/// What goes out at most (docs/shaping.md).
struct Limit {
  std::string group;    // the provider, or the hosts of a route; empty: wherever it goes
  std::string source;   // that mail leaves from; empty: any
  std::string domain;   // of senders; empty: any
  std::string name;     // of a limit that was set: "domain:x", "smtp"; empty: it was learned, or set for a provider
  std::string rate;     // that holds now; empty: none
  std::string set;      // by the administrator's settings
  std::string ordered;  // by pendest
  std::uint32_t connections = 0;
  std::uint64_t waiting = 0;
  std::uint64_t last_minute = 0;
  milliseconds held{0};  // nothing goes for so long
  std::string reason, rule;
  std::uint32_t complaints = 0;
  WallTime complained{};
  std::uint64_t thousandths = 0;  // of the rate that holds now, per hour
  PEN_FIELDS(group, source, domain, name, rate, set, ordered, connections, waiting, last_minute, held, reason, rule,
             complaints, complained, thousandths)
};
/// A slower rate of a limit beside which it stands.
struct Quota {
  std::uint32_t limit = 0;  // its place in `limits`
  std::string rate;         // "5000/h"
  std::uint64_t most = 0;   // of this host: in a cluster its part of the rate
  std::uint64_t used = 0;   // in the rate's time until now
  milliseconds opens{0};    // until one more may go; 0: it may
  PEN_FIELDS(limit, rate, most, used, opens)
};
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
  std::string source;           // of its connections; empty: none
  std::vector<Limit> limits;    // of its provider, or of the route that led here last
  std::vector<Quota> quotas;    // of these limits
  PEN_FIELDS(request, level, key, shown, transport, classification, suspended, connections, limit, in_hand, waiting,
             chosen, facts, paused, shared, elsewhere, session_class, in_line, source, limits, quotas)
};
/// A session class that hosts of an explanation belong to.
struct ClassSeen {
  sessions::ClassStatus counts;  // of anvil; of its limits alone if that cannot be asked
  std::string unknown;           // why the counts are not known; empty: they are
  std::uint64_t in_line = 0;     // hosts that wait for a session, those of other routes included
  PEN_FIELDS(counts, unknown, in_line)
};
/// The server that answers besides this host's own knowledge (destdb_backend). Comes first; not for orders.
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
  std::string status, text;  // unroutable: what a notice to the sender would say
  std::uint32_t level = 0;   // the choice fell on
  std::uint64_t pooled = 0;  // jobs that wait for a connection to these hosts
  std::uint32_t free_workers = 0;
  bool transport_up = true;
  std::uint32_t workers = 0, concurrency = 0, recipients = 0;  // limits; 0: none
  milliseconds rate_delay{0};
  std::string tls;  // the level of the first host and what decided it; empty: none anywhere
  std::vector<ClassSeen> classes;
  std::string by_sender;      // the sender-dependent settings that had a say; empty: none
  std::vector<Limit> limits;  // that such mail has to pass
  std::vector<Quota> quotas;  // of these limits
  PEN_FIELDS(request, recipient, transport, nexthop, valid_for, rule, suspended, status, text, level, pooled,
             free_workers, transport_up, workers, concurrency, recipients, rate_delay, tls, classes, by_sender, limits,
             quotas)
};
struct SourceSeen {
  std::uint64_t request = 0;
  std::string name, address, address6, helo;
  std::string proxy;  // without its password
  std::vector<std::string> pools;
  std::string suspended;  // by hand, and why; empty: it is not
  std::string resting;    // its proxy or address failed, and how; empty: it did not
  WallTime rests_until{};
  std::uint64_t connections = 0;
  bool warms_up = false;
  std::string begins;  // the day of its warm-up, while that is to come
  PEN_FIELDS(request, name, address, address6, helo, proxy, pools, suspended, resting, rests_until, connections,
             warms_up, begins)
};
/// What is known of a source and a provider or domain.
struct SourceGroup {
  std::uint64_t request = 0;
  std::string source, group;
  std::uint32_t stage = 0;                // of its warm-up, from 1 on; 0: none
  std::uint32_t limit = 0;                // on this day; 0: none
  std::uint32_t taken = 0, accepted = 0;  // on this day
  std::string blocked;                    // why it sends nothing there; empty: it does
  WallTime blocked_until{};
  PEN_FIELDS(request, source, group, stage, limit, taken, accepted, blocked, blocked_until)
};
/// A limit that is of no destination.
struct LimitSeen {
  std::uint64_t request = 0;
  Limit limit;
  std::vector<Quota> quotas;
  PEN_FIELDS(request, limit, quotas)
};
enum class Outcome : std::uint8_t { ok, not_found, denied, failed };
struct Done {
  std::uint64_t request = 0;
  Outcome outcome = Outcome::ok;
  std::uint64_t count = 0;
  std::string text;
  PEN_FIELDS(request, outcome, count, text)
};

using ToQmgr = std::variant<Find, Order, Explain, FindSources>;
using FromQmgr = std::variant<Entry, Suspended, Explained, Done, Backend, SourceSeen, SourceGroup, LimitSeen>;

}  // namespace pen::ipc::destinations
