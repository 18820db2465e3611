#include "lib/base/random.h"

#include <sys/random.h>

#include <cerrno>

#include "lib/base/check.h"

namespace pen {

Random::Random(std::uint64_t seed) {
  state_[0] = seed;
  for (std::size_t i = 1; i < state_.size(); ++i)
    state_[i] = (state_[i - 1] ^ (state_[i - 1] >> 62)) * 6364136223846793005U + i;
}

void Random::refill() {
  constexpr std::size_t kAhead = 156;
  for (std::size_t i = 0; i < state_.size(); ++i) {
    const std::uint64_t next = state_[(i + 1) % state_.size()];
    const std::uint64_t x = (state_[i] & 0xffffffff80000000) | (next & 0x7fffffff);
    state_[i] = state_[(i + kAhead) % state_.size()] ^ (x >> 1) ^ ((x & 1) * 0xb5026f5aa96619e9);
  }
  used_ = 0;
}

void secure_random_bytes(MutableBytes out) {
  while (!out.empty()) {
    const ssize_t n = ::getrandom(out.data(), out.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    PEN_CHECK(n > 0, "getrandom");
    out = out.subspan(static_cast<std::size_t>(n));
  }
}

std::uint64_t secure_random_u64() {
  std::byte raw[8];
  secure_random_bytes(raw);
  return load_le<std::uint64_t>(raw);
}

}  // namespace pen
