#include "lib/base/random.h"

#include <sys/random.h>

#include <cerrno>

#include "lib/base/check.h"

namespace pen {

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
