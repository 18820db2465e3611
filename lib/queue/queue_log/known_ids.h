#pragma once
/// Which messages were taken lately, and which of an earlier process's were begun. Private to lib/queue/queue_log.
#include <algorithm>

#include "lib/base/time.h"
#include "lib/queue/queue_log/recent_ids.h"

namespace pen::queue_log {

struct KnownIds {
  /// One seed for both: a key of one is a key of the other. now: nothing was taken by this process yet.
  KnownIds(std::size_t most, std::uint64_t seed, WallTime now)
      : accepted(most, seed), begun(most, seed), since_(now), newer_since_(now) {}

  RecentIds accepted;
  // Work on them was begun by this process, from what an earlier one left: the places of the STARTs.
  RecentIds begun;

  /// `accepted` has every message that was taken from then on. To be asked now and then: when the ids were forgotten
  /// twice since it was asked last, all that was taken before `now` counts as forgotten. Never falls.
  WallTime known_since(WallTime now) {
    const std::uint64_t times = accepted.forgettings() - seen_;
    if (times == 0) return since_;
    seen_ += times;
    since_ = std::max(since_, times == 1 ? newer_since_ : now);
    newer_since_ = std::max(newer_since_, now);
    return since_;
  }

 private:
  std::uint64_t seen_ = 0;  // RecentIds::forgettings()
  WallTime since_, newer_since_;
};

}  // namespace pen::queue_log
