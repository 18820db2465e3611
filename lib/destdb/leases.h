#pragma once
/// Leases: how the hosts of a cluster share the connections that a destination tolerates.
///
/// A host says how many connections it holds to a destination and how many more it wants; the server, which has
/// everybody's word, says how many of these it gets (kLeaseScript, one step there, so nobody comes between). What a
/// host says counts until its lease ends, by the server's clock; it says it again before. Numbers are said whole,
/// never as differences: a word that is lost or said twice does no harm.
/// Fair:    who holds fewer comes first, then who has waited longer. Who holds more than his part while others wait
///          gives some back (surplus()).
/// Pure; any thread.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/time.h"

namespace pen::destdb {

// Who was refused is counted among those that wait for so long after his last word; he asks again sooner than that.
inline constexpr milliseconds kPatience{3000};
inline constexpr milliseconds kAskAgain{1000};
// Where there are fewer connections than hosts that want one they take turns of this length.
inline constexpr seconds kTurn{5};
inline constexpr std::uint32_t kMaxHeld = 1'000'000;

/// What the server answers.
struct LeaseAnswer {
  std::uint32_t granted = 0;  // of what was wanted
  std::uint32_t others = 0;   // connections of other hosts
  std::uint32_t members = 0;  // other hosts that hold some or wait
  std::uint32_t waiting = 0;  // of these, who wait and hold less than this one has now
  std::uint32_t least = 0;    // the fewest that one of the waiting holds
  /// The six numbers of the script's reply; nullopt: not to be believed.
  static std::optional<LeaseAnswer> checked(const std::int64_t (&numbers)[5], std::uint32_t wanted);
  bool operator==(const LeaseAnswer&) const = default;
};

/// How many of the `held` connections are to be given back now. had_for: how long this host has had any.
std::uint32_t surplus(std::uint32_t held, std::uint32_t limit, const LeaseAnswer& answer, SteadyTime::duration had_for);

/// KEYS: the destination's leases, its facts. ARGV: the host, held, wanted, limit, the lease's and the patience's
/// milliseconds, the version of the facts that is known.
/// Reply: granted, others, members, waiting, least, version of the facts, and these as field, value, … if it is
/// another.
extern const std::string_view kLeaseScript;
/// KEYS: the facts. ARGV: milliseconds to keep them, then field, value, … Reply: their version.
extern const std::string_view kFactsScript;
/// KEYS: the hosts. ARGV: the host, its lease's milliseconds (0: it leaves). Reply: how many there are.
extern const std::string_view kHostScript;

}  // namespace pen::destdb
