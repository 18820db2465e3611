#pragma once
/// Pace: how long to wait before something that failed or ended is tried again. No I/O, no clock.
///
/// Use:     Pace pace({.first = milliseconds(100), .longest = seconds(5)});
///          co_await loop.sleep(pace.next(lasted));     // lasted: 0 where it could not be had at all
/// Rules:   an end is early when the thing lasted less than `settled`. After an end that is not early, and after the
///          first `free - 1` early ones in a row, the next try may come at once. Each further early end doubles the
///          pause, from `first` to `longest`: what cannot live must not eat the machine.
#include <algorithm>
#include <chrono>

#include "lib/base/time.h"

namespace pen {

class Pace {
 public:
  struct Options {
    milliseconds first{100}, longest{5000};
    milliseconds settled{1000};
    int free = 1;
  };
  explicit Pace(Options options) : options_(options) {}

  milliseconds next(std::chrono::nanoseconds lasted = {}) {
    early_ends_ = lasted < options_.settled ? early_ends_ + 1 : 0;
    if (early_ends_ < options_.free) return milliseconds(0);
    const int doublings = std::min(early_ends_ - options_.free, kMostDoublings);
    return std::min(options_.longest, milliseconds(options_.first.count() << doublings));
  }
  /// How many in a row.
  int early_ends() const { return early_ends_; }
  void forget() { early_ends_ = 0; }
  const Options& options() const { return options_; }

 private:
  static constexpr int kMostDoublings = 20;  // a million times `first`
  Options options_;
  int early_ends_ = 0;
};

}  // namespace pen
