#pragma once
/// Bursts to hosts that take their time at any reply, for tests of the scheduler's throughput and for the tables of
/// docs/scheduler-simulation.md, in virtual time: through the real scheduler, by what the limits allow, and through a
/// model of Postfix.
///
/// A connection costs a round trip, the greeting, another and the reply to EHLO. A connection's messages are served
/// one after another, as servers do: what is sent ahead saves round trips and nothing else.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/time.h"

namespace pen::qmgr::slow_peers {

/// How messages go to a host (smtp/pipeline.cc).
enum class Offers : std::uint8_t {
  nothing,     // one command at a time
  pipelining,  // a round trip for each message where the next one lies ready, else two
  chunking     // and PIPELINING: messages are sent ahead
};

struct Peer {
  microseconds trip{100};  // round trip
  microseconds greeting{1000}, ehlo{1000}, mail{0}, rcpt{0}, data{0}, end_of_data{0};
  Offers offers = Offers::chunking;
  std::uint32_t window = 32;    // pipeline_window_messages: of a path of up to 20 ms
  std::uint32_t at_a_time = 0;  // messages that it works on at once, whatever the connections; 0: any number
  microseconds setup() const { return 2 * trip + greeting + ehlo; }
  /// The time that the server itself takes for a message.
  microseconds work() const;
  /// The time of a message alone on a connection.
  microseconds alone() const;
  /// The time from one message to the next when as many lie ready as the window takes.
  microseconds each() const;
  /// How many messages the delivery program takes at once.
  std::uint32_t at_once() const;
  bool operator==(const Peer&) const = default;
};

/// A next hop. No host belongs to two.
struct Route {
  std::vector<std::size_t> hosts;
  std::uint32_t messages = 0;
};

struct Burst {
  std::vector<Peer> hosts;
  std::vector<Route> routes;
  std::uint32_t concurrency = 20;  // connections to one host
  std::uint32_t initial = 5;
  std::uint32_t workers = 2000;
  bool known = false;        // the hosts have taken mail from us before
  std::uint32_t steady = 0;  // messages per second to the first route, from three seconds before the burst on
  bool envelope = false;     // the first route's part of the burst is one message: two recipients in each delivery
  std::uint64_t seed = 1;
  std::uint32_t messages() const;
};
/// All messages to one next hop with hosts that are all alike.
Burst burst(std::size_t hosts, const Peer& peer, std::uint32_t messages, std::uint32_t concurrency = 20);

struct Outcome {
  microseconds took{0};                  // until the last message of the burst was delivered
  std::uint64_t opened = 0;              // connections
  std::uint64_t for_nothing = 0;         // of them, those that never carried a message
  std::uint64_t most = 0;                // connections at once
  std::uint32_t at_end = 0;              // when the last message was delivered
  std::vector<microseconds> measured;    // by host, what it is taken to take for a message in the end
  std::vector<std::uint32_t> delivered;  // by host, steady mail as well
  std::string waits_for_nothing;         // the first job that waited needlessly, if there was one (needless_wait.cc)
  /// Messages per connection of those that were opened.
  double per_connection() const;
};
/// The burst through the real scheduler: all messages come at once, those of the routes in turns. Steady mail beside it
/// is counted as far as it comes before the last of them is delivered.
Outcome run(const Burst& b);

/// No scheduler takes less. A host delivers most if it has as many connections as it may have, opened as early as
/// they may be and never idle (a burst begins with few, known or not; beside steady mail it finds as many as there may
/// be): for each route the sum of what its hosts could deliver so must reach its messages. With
/// too few workers each delivers on one connection at a time: their time must suffice for the deliveries of all
/// routes, each at the hosts that take least of it, and no route has more connections than workers. Unknown hosts must
/// be explored: each has its first message. And a message alone goes to any host of those that do
/// not take three times as long as others, because hosts of equal preference share the load. Steady mail that has come
/// meanwhile is to be delivered as well.
microseconds limit(const Burst& b);

/// Postfix: a delivery agent per connection, one message at a time on it; a limit for the next hop, whatever its
/// hosts, from initial_destination_concurrency one more with each delivery (qmgr(8)); next hops take turns at the
/// agents. A connection goes to any host of the route (drawn from seed). Kinder than Postfix is: every connection is
/// used again. Steady mail is what comes within the limit(), and comes with the burst.
struct OfPostfix {
  microseconds took{0};
  std::uint64_t opened = 0;
};
OfPostfix postfix(const Burst& b, std::uint64_t seed = 1);

/// The connections that Postfix opens when each host is a next hop of its own and has so many of the burst's messages:
/// limits belong to hosts here (docs/decisions/016-limits-belong-to-hosts.md).
std::uint64_t most_of_postfix(const Burst& b, const std::vector<std::uint32_t>& delivered);

/// The burst in words.
std::string shown(const Burst& b);

inline double seconds_of(microseconds t) { return static_cast<double>(t.count()) / 1e6; }

}  // namespace pen::qmgr::slow_peers
