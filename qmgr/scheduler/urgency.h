#pragma once
/// How urgent mail is: three classes, made of the nineteen priorities of RFC 6710, and the turns among them
/// (docs/priorities.md).
///
/// Use:     urgency_of(priority) when a message is admitted; what waits has turn(): its class and what a turn costs it.
///          The lines are in urgency_round.h.
/// Rules:   the class has the turn that has had least of late, in recipients by weight; of equal ones the more urgent.
///          The weights are powers of a ratio (message_priority_ratio), so a class is never served more than that many
///          times as much as the next one below while both wait, and the lowest always has its share.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace pen::qmgr {

enum class Urgency : std::uint8_t { bulk, normal, urgent };
inline constexpr std::size_t kUrgencies = 3;

/// Of a priority, -9 to 9. 0 is what mail without a priority has.
constexpr Urgency urgency_of(int priority) {
  return priority < 0 ? Urgency::bulk : priority > 0 ? Urgency::urgent : Urgency::normal;
}
constexpr std::size_t index_of(Urgency u) { return static_cast<std::size_t>(u); }

/// What a recipient costs in turns: all classes have had equally much when their costs are equal.
struct UrgencyTurn {
  Urgency urgency = Urgency::normal;
  std::uint32_t cost = 1;
};
constexpr UrgencyTurn turn_of(Urgency u, std::uint32_t ratio) {
  std::uint32_t cost = 1;
  for (std::size_t i = index_of(u); i + 1 < kUrgencies; ++i) cost *= ratio;
  return {u, cost};
}

/// What each class has had. One that comes, or comes back, begins with what the one served last had: a class without
/// mail saves no turns up, and does not lose what it had too much by leaving for a moment.
class UrgencyTurns {
 public:
  void begins(Urgency u) { had_[index_of(u)] = std::max(had_[index_of(u)], now_); }
  void served(UrgencyTurn turn, std::size_t recipients) {
    std::uint64_t& had = had_[index_of(turn.urgency)];
    now_ = std::max(now_, had);
    had += std::max<std::uint64_t>(recipients, 1) * turn.cost;
  }
  /// Whether a has the turn before b.
  bool before(Urgency a, Urgency b) const {
    const auto had_a = had_[index_of(a)], had_b = had_[index_of(b)];
    return had_a != had_b ? had_a < had_b : a > b;
  }

 private:
  std::array<std::uint64_t, kUrgencies> had_{};
  std::uint64_t now_ = 0;
};

}  // namespace pen::qmgr
