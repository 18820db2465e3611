#include "lib/base/metrics/metrics.h"

#include <algorithm>
#include <array>

namespace pen::metrics::detail {

namespace {
constinit std::array<Slot, kSlots> own_slots{};
}  // namespace

constinit Slot* slots = own_slots.data();

void observe(const Family& f, std::size_t first, std::uint64_t value) {
  const auto bucket = std::ranges::lower_bound(f.bounds, value) - f.bounds.begin();
  add(first + static_cast<std::size_t>(bucket), 1);
  add(first + f.bounds.size() + 1, value);
}

}  // namespace pen::metrics::detail
