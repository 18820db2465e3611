#pragma once
/// Randomness as a parameter: cores take a Random&, tests give a seeded one and print the seed.
///
/// A seed means the same with every compiler and library: the generator (xoshiro256**, by Blackman and Vigna) and the
/// bounded draw (by Lemire, without a bias) stand here. Not for secrets: keys come from secure_random_bytes().
#include <array>
#include <bit>
#include <cstdint>

#include "lib/base/bytes.h"

namespace pen {

class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {  // splitmix64, so that no seed leads to a state of zeros
      seed += 0x9e3779b97f4a7c15;
      std::uint64_t mixed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9;
      mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
      word = mixed ^ (mixed >> 31);
    }
  }

  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Uniform in [0, bound); 0 when bound is 0.
  std::uint64_t below(std::uint64_t bound) {
    if (bound == 0) return 0;
    // The upper half of the product is the draw. Where the lower half is below 2^64 mod bound, the draw comes once too
    // often and is drawn again.
    for (;;) {
      const auto [high, low] = product(next(), bound);
      if (low >= bound || low >= (0 - bound) % bound) return high;
    }
  }

  /// Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  bool chance(double probability) { return unit() < probability; }

 private:
  struct Product {
    std::uint64_t high;
    std::uint64_t low;
  };

  /// a * b, in 128 bits.
  static Product product(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t a_low = a & 0xffffffff, a_high = a >> 32, b_low = b & 0xffffffff, b_high = b >> 32;
    const std::uint64_t low = a_low * b_low, middle = a_high * b_low + (low >> 32);
    const std::uint64_t other = a_low * b_high + (middle & 0xffffffff);
    return {.high = a_high * b_high + (middle >> 32) + (other >> 32), .low = a * b};
  }

  std::array<std::uint64_t, 4> state_{};
};

/// Fills from the kernel's generator; cannot fail (a kernel without one is PEN_CHECKed).
void secure_random_bytes(MutableBytes out);
std::uint64_t secure_random_u64();

}  // namespace pen
