#pragma once
/// How long to wait before a lost program is called again: short at first, doubling while it does not answer.
#include <algorithm>
#include <chrono>

#include "lib/base/time.h"

namespace pen::qmgr {

class Pace {
 public:
  milliseconds next() {
    const auto now = wait_;
    wait_ = std::min(wait_ * 2, milliseconds(5000));
    return now;
  }
  /// It answered.
  void reset() { wait_ = kFirst; }

 private:
  static constexpr milliseconds kFirst{100};
  milliseconds wait_ = kFirst;
};

}  // namespace pen::qmgr
