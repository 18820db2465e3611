#pragma once
/// Randomness as a parameter: cores take a Random&, tests give a seeded one and print the seed.
///
/// A seed means the same with every compiler and library: the generator (MT19937-64, by Matsumoto and Nishimura) and
/// the draws from it stand here and in random.cc. Not for secrets: keys come from secure_random_bytes().
#include <algorithm>
#include <array>
#include <cstdint>

#include "lib/base/bytes.h"

namespace pen {

class Random {
 public:
  explicit Random(std::uint64_t seed);

  std::uint64_t next() {
    if (used_ == state_.size()) refill();
    std::uint64_t x = state_[used_++];
    x ^= (x >> 29) & 0x5555555555555555;
    x ^= (x << 17) & 0x71d67fffeda60000;
    x ^= (x << 37) & 0xfff7eee000000000;
    return x ^ (x >> 43);
  }

  /// Uniform in [0, bound); 0 when bound is 0.
  std::uint64_t below(std::uint64_t bound) {
    if (bound == 0) return 0;
    // By Lemire: the upper half of the product is the draw. Where the lower half is below 2^64 mod bound, the draw
    // comes once too often and is drawn again.
    for (;;) {
      const auto [high, low] = product(next(), bound);
      if (low >= bound || low >= (0 - bound) % bound) return high;
    }
  }

  /// Uniform in [0, 1).
  double unit() { return std::min(static_cast<double>(next()) * 0x1.0p-64, 1 - 0x1.0p-53); }
  bool chance(double probability) { return unit() < probability; }

 private:
  struct Product {
    std::uint64_t high;
    std::uint64_t low;
  };

  /// a * b, in 128 bits.
  static Product product(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t a_low = a & 0xffffffff, a_high = a >> 32, b_low = b & 0xffffffff, b_high = b >> 32;
    const std::uint64_t middle = a_high * b_low + ((a_low * b_low) >> 32);
    const std::uint64_t other = a_low * b_high + (middle & 0xffffffff);
    return {.high = a_high * b_high + (middle >> 32) + (other >> 32), .low = a * b};
  }

  void refill();

  std::array<std::uint64_t, 312> state_;
  std::size_t used_ = state_.size();
};

/// Fills from the kernel's generator; cannot fail (a kernel without one is PEN_CHECKed).
void secure_random_bytes(MutableBytes out);
std::uint64_t secure_random_u64();

}  // namespace pen
