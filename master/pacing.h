#pragma once
/// Decides how soon a program that died is started again. No I/O.
///
/// At once if it had served for a while, and after the first early death. From the second early death in a row on the
/// pause is 1 s, 2 s, 4 s … up to kMost: a program that cannot live must not use up the machine.
/// Early: before it was ready, or less than kYoung after that.
#include <algorithm>

#include "lib/base/time.h"

namespace pen::master {

class Pacing {
 public:
  static constexpr seconds kYoung{1};
  static constexpr seconds kMost{60};

  /// When to start again. ready: when the program became ready; kNever: it did not.
  SteadyTime died(SteadyTime now, SteadyTime ready) {
    const bool early = ready == kNever || now - ready < kYoung;
    early_deaths_ = early ? early_deaths_ + 1 : 0;
    if (early_deaths_ < 2) return now;
    return now + std::min<seconds>(kMost, seconds(1LL << std::min(early_deaths_ - 2, 6)));
  }
  int early_deaths() const { return early_deaths_; }
  void forgive() { early_deaths_ = 0; }

 private:
  int early_deaths_ = 0;
};

}  // namespace pen::master
