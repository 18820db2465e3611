#include "lib/base/async/wheel.h"

#include <algorithm>
#include <bit>

namespace pen::async::detail {
namespace {
constexpr std::uint64_t kNoTick = ~std::uint64_t{0};

std::uint64_t tick_floor(SteadyTime t) {
  const auto since = t.time_since_epoch();
  return since.count() <= 0 ? 0 : static_cast<std::uint64_t>(since / TimerWheel::kTick);
}
std::uint64_t tick_ceil(SteadyTime t) {
  const std::uint64_t floor = tick_floor(t);
  return t.time_since_epoch() % TimerWheel::kTick == std::chrono::nanoseconds(0) ? floor : floor + 1;
}
}  // namespace

TimerWheel::TimerWheel(SteadyTime now) : current_(tick_floor(now)) {}

void TimerWheel::insert(WheelNode& node, SteadyTime deadline) {
  node.deadline = deadline;
  place(node, current_ + 1);
}

void TimerWheel::place(WheelNode& node, Tick earliest) {
  constexpr Tick kSpan = Tick{1} << (kBits * kLevels);
  const Tick tick = std::clamp(tick_ceil(node.deadline), earliest, current_ + kSpan - 1);
  const Tick delta = tick - current_;
  unsigned level = 0;
  while (delta >> (kBits * (level + 1)) != 0) ++level;
  const auto slot = static_cast<unsigned>((tick >> (kBits * level)) & (kSlots - 1));
  slots_[level][slot].push_back(node);
  occupied_[level] |= std::uint64_t{1} << slot;
}

void TimerWheel::cascade(unsigned level) {
  const auto slot = static_cast<unsigned>((current_ >> (kBits * level)) & (kSlots - 1));
  if (slot == 0 && level + 1 < kLevels) cascade(level + 1);
  Link moved;
  moved.splice_back(slots_[level][slot]);
  occupied_[level] &= ~(std::uint64_t{1} << slot);
  while (moved.linked()) {
    auto& node = static_cast<WheelNode&>(*moved.next);
    node.unlink();
    place(node, current_);
  }
}

void TimerWheel::step() {
  ++current_;
  const auto slot = static_cast<unsigned>(current_ & (kSlots - 1));
  if (slot == 0) cascade(1);
  Link due;
  due.splice_back(slots_[0][slot]);
  occupied_[0] &= ~(std::uint64_t{1} << slot);
  while (due.linked()) {
    auto& node = static_cast<WheelNode&>(*due.next);
    node.unlink();
    node.fire(node);
  }
}

TimerWheel::Tick TimerWheel::next_tick() {
  Tick best = kNoTick;
  for (unsigned level = 0; level < kLevels; ++level) {
    const Tick base = current_ >> (kBits * level);
    const auto first = static_cast<unsigned>((base + 1) & (kSlots - 1));
    while (occupied_[level] != 0) {
      const std::uint64_t rotated = std::rotr(occupied_[level], static_cast<int>(first));
      const auto ahead = static_cast<unsigned>(std::countr_zero(rotated));
      const unsigned slot = (first + ahead) & (kSlots - 1);
      if (slots_[level][slot].linked()) {
        best = std::min(best, (base + 1 + ahead) << (kBits * level));
        break;
      }
      occupied_[level] &= ~(std::uint64_t{1} << slot);
    }
  }
  return best;
}

void TimerWheel::advance(SteadyTime now) {
  const Tick target = tick_floor(now);
  while (current_ < target) {
    const Tick next = next_tick();
    if (next > target) {
      current_ = target;  // every slot in between is empty
      return;
    }
    current_ = next - 1;
    step();
  }
}

SteadyTime TimerWheel::next() {
  const Tick tick = next_tick();
  if (tick == kNoTick) return kNever;
  return SteadyTime(kTick * static_cast<std::int64_t>(tick));
}

}  // namespace pen::async::detail
