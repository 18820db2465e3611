#pragma once
/// The guard around every event of the manager: the scheduler has the time before it, and the manager settles after it.
///
/// Use:     `const Turn turn(turns_);` is the first line of an event. settle() opens one with Turn::Then::nothing.
/// Nested:  a turn within another changes nothing: an event that causes others is settled once.
#include "qmgr/surroundings.h"

namespace pen::qmgr {

/// Counts the turns that are open.
class Turns {
 public:
  explicit Turns(const Surroundings& around) : around_(around) {}

 private:
  friend class Turn;
  const Surroundings& around_;
  int open_ = 0;
};

class [[nodiscard]] Turn {
 public:
  enum class Then : std::uint8_t { settle, nothing };
  explicit Turn(Turns& turns, Then then = Then::settle) : turns_(turns), then_(then) {
    if (turns_.open_++ == 0)
      turns_.around_.scheduler.set_time(turns_.around_.clock.now(), turns_.around_.clock.wall_now());
  }
  ~Turn() {
    if (--turns_.open_ == 0 && then_ == Then::settle) turns_.around_.ports.settle_soon();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Turns& turns_;
  Then then_;
};

}  // namespace pen::qmgr
