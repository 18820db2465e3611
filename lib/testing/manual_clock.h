#pragma once
/// A Clock that moves only when the test says so.
#include "lib/base/time.h"

namespace pen::testing {

class ManualClock final : public Clock {
 public:
  ManualClock() = default;
  ManualClock(const ManualClock& o) : Clock(), steady_(o.steady_), wall_(o.wall_) {}
  ManualClock& operator=(const ManualClock& o) {
    steady_ = o.steady_;
    wall_ = o.wall_;
    return *this;
  }
  ~ManualClock() override = default;
  SteadyTime now() const override { return steady_; }
  WallTime wall_now() const override { return wall_; }
  void advance(std::chrono::nanoseconds by) {
    steady_ += by;
    wall_ += std::chrono::duration_cast<microseconds>(by);
  }
  /// Steps the calendar time alone, like an administrator or NTP.
  void step_wall(std::chrono::microseconds by) { wall_ += by; }

 private:
  SteadyTime steady_{seconds(1000)};
  WallTime wall_{seconds(1'800'000'000)};
};

}  // namespace pen::testing
