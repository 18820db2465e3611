#pragma once
/// The processor time of a piece of work: the best of several rounds, which other work of the machine disturbs least.
///
/// Use:    const double us = least_time(7, 1000, [&] { … }).count();
/// Thread: the one that does the work: only its processor time counts.
#include <algorithm>
#include <chrono>

#include "lib/base/processor_time.h"

namespace pen::bench {

using Microseconds = std::chrono::duration<double, std::micro>;

/// For one of the `count` pieces of work in each round.
template <class Work>
Microseconds least_time(int rounds, int count, Work work) {
  auto best = std::chrono::nanoseconds::max();
  for (int i = 0; i < rounds; ++i) {
    const auto begun = processor_time();
    for (int n = 0; n < count; ++n) work();
    best = std::min(best, std::chrono::nanoseconds(processor_time() - begun));
  }
  return Microseconds(best) / count;
}

}  // namespace pen::bench
