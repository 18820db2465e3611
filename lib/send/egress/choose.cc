#define XXH_INLINE_ALL
#include "lib/send/egress/choose.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>

namespace pen::egress {

std::uint64_t draw_of(std::string_view queue_id) { return XXH3_64bits(queue_id.data(), queue_id.size()); }

std::vector<std::uint32_t> order_of(const File& file, const Pool& pool, std::uint64_t draw) {
  struct Drawn {
    double score;
    std::uint32_t source;
  };
  std::vector<Drawn> drawn;
  drawn.reserve(pool.members.size());
  for (const Member& m : pool.members) {
    if (m.weight == 0) continue;
    const std::string& name = file.sources[m.source].name;
    const std::uint64_t h = XXH3_64bits_withSeed(name.data(), name.size(), draw);
    // In (0, 1); the time to the first of m.weight events a second, so the least of all is m's with the odds of its
    // weight.
    const double uniform = (static_cast<double>(h >> 11U) + 0.5) * 0x1p-53;
    drawn.push_back({-std::log(uniform) / m.weight, m.source});
  }
  std::sort(drawn.begin(), drawn.end(), [](const Drawn& a, const Drawn& b) {
    return a.score != b.score ? a.score < b.score : a.source < b.source;
  });
  std::vector<std::uint32_t> order;
  order.reserve(drawn.size());
  for (const Drawn& d : drawn) order.push_back(d.source);
  return order;
}

}  // namespace pen::egress
