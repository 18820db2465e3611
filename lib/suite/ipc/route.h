#pragma once
/// Conversation "route": qmgr asks trivial-rewrite where a recipient goes.
#include <string>
#include <variant>
#include <vector>

#include "lib/mail/delivery_status.h"
#include "lib/mail/envelope.h"
#include "lib/suite/ipc/destination.h"

namespace pen::ipc::route {

inline constexpr std::string_view kName = "route";
/// Requests of a connection that trivial-rewrite works on at a time, whatever they wait for; and as many qmgr has
/// under way (Options::routing_workers). Not more, since further ones would wait in the socket, where no fairness
/// sees them. Not fewer, since none that is worked on holds up another: the resolver has room for kQuestions of each.
/// Not thousands, since all may have to take turns at the connections to one table server (map::Asker::Limits).
inline constexpr std::uint32_t kMaxUnderWay = 500;
/// A look-up asks DNS one thing at a time (MX), then one for each host: two, as a rule.
inline constexpr std::uint32_t kQuestions = 2;

// qmgr → trivial-rewrite
struct Route {
  std::uint64_t request = 0;
  std::string_view recipient;
  std::string_view sender;
  mail::RequireTls requiretls = mail::RequireTls::unspecified;
  std::string_view transport = {};  // mail::Envelope::filter, else its transport; empty: by the rules
  bool flushed = false;             // defer_transports does not hold it
  bool verification = false;        // of address verification: the address_verify_* settings count
  bool forwarded = false;           // if it leaves this host, its sender may have to be rewritten (SRS)
  PEN_FIELDS(request, recipient, sender, requiretls, transport, flushed, verification, forwarded)
};

/// One preference level: equally good destinations, already shuffled.
struct Level {
  std::vector<Destination> destinations;
  PEN_FIELDS(destinations)
  bool operator==(const Level&) const = default;
};
struct Resolved {
  std::string transport;
  std::string nexthop;        // domain or [host]:port as the maps say; recipients are grouped by it
  std::string recipient;      // possibly rewritten by the transport table's rules; usually the same
  std::vector<Level> levels;  // primary hosts first
  seconds valid_for{60};      // a job not begun within this is routed again (DNS TTL, bounded)
  // so it is for every recipient at this domain whose local part hides no other host, until then or a new configuration
  bool for_domain = false;
  std::string tls;        // for people: the level of the first host and what decided it; empty: no TLS anywhere
  std::string by_sender;  // for people: the sender-dependent settings that had a say; empty: none
  std::string sender;     // the rewritten sender, in place of the message's; empty: it stays
  PEN_FIELDS(transport, nexthop, recipient, levels, valid_for, for_domain, tls, by_sender, sender)
};
/// The recipient has no route: action is failed (permanent) or deferred. Mail for a transport of defer_transports is
/// deferred before a host of it is looked for, and so before one can be missing.
struct Unroutable {
  mail::DeliveryStatus status;
  PEN_FIELDS(status)
};
// trivial-rewrite → qmgr
struct Routed {
  std::uint64_t request = 0;
  std::variant<Resolved, Unroutable> answer;
  PEN_FIELDS(request, answer)
};

using ToRewrite = std::variant<Route>;
using FromRewrite = std::variant<Routed>;

}  // namespace pen::ipc::route
