#pragma once
/// Which messages were taken lately, and which of an earlier process's were begun. Private to lib/queue/queue_log.
#include "lib/queue/queue_log/recent_ids.h"

namespace pen::queue_log {

struct KnownIds {
  /// One seed for both: a key of one is a key of the other.
  KnownIds(std::size_t most, std::uint64_t seed) : accepted(most, seed), begun(most, seed) {}

  RecentIds accepted;
  // Work on them was begun by this process, from what an earlier one left: the places of the STARTs.
  RecentIds begun;
};

}  // namespace pen::queue_log
