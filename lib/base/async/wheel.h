#pragma once
/// Hierarchical timer wheel: four levels of 64 slots, ticks of 16 ms (1 s, 65 s, 70 min, 3 days; later deadlines wait
/// in the last slot and are placed again). Insert and withdraw are O(1), without a search or an allocation.
///
/// Use:     wheel.insert(node, deadline); … wheel.advance(now);       // calls node.fire for each that is due
///          A node withdraws itself by unlink() or by its destruction. next() says how long no node can be due.
/// Time:    a node fires at the first advance() at or after its deadline rounded up to a tick; never early.
#include <cstdint>

#include "lib/base/link.h"
#include "lib/base/time.h"

namespace pen::async::detail {

struct WheelNode : Link {
  SteadyTime deadline = kNever;
  // Called when the node is withdrawn already; may destroy the node and insert others.
  void (*fire)(WheelNode&) = nullptr;
};

class TimerWheel {
 public:
  static constexpr std::chrono::nanoseconds kTick = milliseconds(16);

  explicit TimerWheel(SteadyTime now);
  void insert(WheelNode& node, SteadyTime deadline);
  void advance(SteadyTime now);
  /// No node is due before this time; kNever when the wheel is empty.
  SteadyTime next();

 private:
  static constexpr unsigned kBits = 6, kSlots = 1U << kBits, kLevels = 4;
  using Tick = std::uint64_t;

  void place(WheelNode& node, Tick earliest);
  void cascade(unsigned level);
  Tick next_tick();
  void step();

  Tick current_;
  Link slots_[kLevels][kSlots];
  std::uint64_t occupied_[kLevels] = {};  // a set bit may be stale: nodes unlink without a word to the wheel
};

}  // namespace pen::async::detail
