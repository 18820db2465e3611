#pragma once
/// Leases: how the hosts of a cluster share the connections that a destination tolerates.
///
/// A host states how many connections it holds to a destination and how many more it wants. The server knows the
/// statements of all hosts and says how many of these the host gets (kLeaseScript; it is one atomic step there). A
/// statement counts until its lease ends, by the server's clock; the host repeats it before that. Numbers are always
/// totals, never differences: a lost or repeated statement does no harm.
/// Fair:    the host that holds fewer comes first, then the one that has waited longer. A host with more than its
///          share while others wait gives some back (surplus()).
/// Pure; any thread.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/time.h"

namespace pen::destdb {

// A refused host counts as waiting for this long after its last statement; it asks again sooner than that.
inline constexpr milliseconds kPatience{3000};
inline constexpr milliseconds kAskAgain{1000};
// If there are fewer connections than hosts that want one, hosts take turns of this length.
inline constexpr seconds kTurn{5};
inline constexpr std::uint32_t kMaxHeld = 1'000'000;

/// The server's answer.
struct LeaseAnswer {
  std::uint32_t granted = 0;  // number granted
  std::uint32_t others = 0;   // connections of other hosts
  std::uint32_t members = 0;  // other hosts that hold connections or wait
  std::uint32_t waiting = 0;  // hosts among these that wait and hold fewer than this host does now
  std::uint32_t least = 0;    // the smallest number that a waiting host holds
  /// Checks the numbers of the script's reply; nullopt: not credible.
  static std::optional<LeaseAnswer> checked(const std::int64_t (&numbers)[5], std::uint32_t wanted);
  bool operator==(const LeaseAnswer&) const = default;
};

/// How many of the `held` connections to give back now. had_for: how long this host has had any.
std::uint32_t surplus(std::uint32_t held, std::uint32_t limit, const LeaseAnswer& answer, SteadyTime::duration had_for);

/// KEYS: the destination's leases, its facts. ARGV: the host, held, wanted, limit, the milliseconds of the lease and
/// of the patience, the known version of the facts. Reply: granted, others, members, waiting, least, the version of
/// the facts; if that is another version, the facts as field, value, …
extern const std::string_view kLeaseScript;
/// KEYS: the facts. ARGV: milliseconds to keep them, then field, value, … Reply: the version of the facts.
extern const std::string_view kFactsScript;
/// KEYS: the hosts. ARGV: the host, the milliseconds of its lease (0: it leaves). Reply: the number of hosts.
extern const std::string_view kHostScript;

}  // namespace pen::destdb
