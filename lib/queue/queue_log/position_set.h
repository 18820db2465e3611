#pragma once
/// A set of positions in flat memory: what the log asks for every record that it reads, and what each save of restart
/// positions empties by thousands in one turn.
///
/// Use:     PositionSet dead(20'000); dead.insert({7, 4096}); if (dead.contains({7, 4096})) …; dead.erase({7, 4096});
/// Memory:  16 bytes a place, at most half of them taken; grows by doubling and never shrinks. `expected` of the
///          constructor is how many it holds before it first grows.
/// Keys:    positions of records: their use is never 0, which marks a free place.
/// No I/O.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/check.h"
#include "lib/queue/queue_log/message.h"

namespace pen::queue_log {

class PositionSet {
 public:
  explicit PositionSet(std::size_t expected = 0)
      : places_(std::bit_ceil(std::max<std::size_t>(2 * expected, kSmallest))) {}

  bool contains(const Position& position) const { return places_[find(position)].use != 0; }
  /// One that is there already stays.
  void insert(const Position& position) {
    PEN_CHECK(position.use != 0, "the position of no record");
    std::size_t at = find(position);
    if (places_[at].use != 0) return;
    if (2 * (size_ + 1) > places_.size()) {
      grow();
      at = find(position);
    }
    places_[at] = position;
    ++size_;
  }
  /// One that is not there is passed over.
  void erase(const Position& position) {
    std::size_t hole = find(position);
    if (places_[hole].use == 0) return;
    // What stands behind moves up as far as its home allows, so that no search ends too early.
    for (std::size_t i = next(hole); places_[i].use != 0; i = next(i)) {
      if (distance(home(places_[i]), i) < distance(hole, i)) continue;
      places_[hole] = places_[i];
      hole = i;
    }
    places_[hole] = {};
    --size_;
  }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kSmallest = 16;

  std::size_t next(std::size_t i) const { return (i + 1) & (places_.size() - 1); }
  std::size_t distance(std::size_t from, std::size_t to) const { return (to - from) & (places_.size() - 1); }
  std::size_t home(const Position& p) const {
    const std::uint64_t mixed = (p.use * 0x9e3779b97f4a7c15ULL + p.offset) * 0xc2b2ae3d27d4eb4fULL;
    return static_cast<std::size_t>(mixed >> 32U) & (places_.size() - 1);
  }
  /// Its place, or the free one where it would stand.
  std::size_t find(const Position& position) const {
    std::size_t at = home(position);
    while (places_[at].use != 0 && places_[at] != position) at = next(at);
    return at;
  }
  void grow() {
    std::vector<Position> old(2 * places_.size());
    old.swap(places_);
    for (const Position& position : old)
      if (position.use != 0) places_[find(position)] = position;
  }

  std::vector<Position> places_;  // a power of two
  std::size_t size_ = 0;
};

}  // namespace pen::queue_log
