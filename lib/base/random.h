#pragma once
/// Randomness as a parameter: cores take a Random&, tests give a seeded one and print the seed.
///
/// Not for secrets: keys come from secure_random_bytes().
#include <cstdint>
#include <random>

#include "lib/base/bytes.h"

namespace pen {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t next() { return engine_(); }
  /// Uniform in [0, bound); 0 when bound is 0.
  std::uint64_t below(std::uint64_t bound) {
    return bound == 0 ? 0 : std::uniform_int_distribution<std::uint64_t>(0, bound - 1)(engine_);
  }
  /// Uniform in [0, 1).
  double unit() { return std::uniform_real_distribution<double>(0, 1)(engine_); }
  bool chance(double probability) { return unit() < probability; }

 private:
  std::mt19937_64 engine_;
};

/// Fills from the kernel's generator; cannot fail (a kernel without one is PEN_CHECKed).
void secure_random_bytes(MutableBytes out);
std::uint64_t secure_random_u64();

}  // namespace pen
