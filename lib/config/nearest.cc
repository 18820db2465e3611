#include "lib/config/nearest.h"

#include <algorithm>
#include <array>
#include <vector>

namespace pen::config {
namespace {

constexpr std::size_t kLongest = 200;

/// The number of edits between a and b; a value above limit if there are more.
std::size_t edits(std::string_view a, std::string_view b, std::size_t limit) {
  const std::size_t difference = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (difference > limit) return limit + 1;
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    std::size_t best = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
      best = std::min(best, now[j]);
    }
    if (best > limit) return limit + 1;
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string_view> known) {
  if (name.size() > kLongest) return {};
  std::size_t limit = std::min<std::size_t>(4, name.size() / 4);
  std::string_view best;
  for (const std::string_view candidate : known) {
    if (candidate.size() > kLongest) continue;
    const std::size_t distance = edits(name, candidate, limit);
    if (distance > limit) continue;
    if (best.empty() || distance < limit) best = candidate;
    limit = distance;
  }
  return std::string(best);
}

}  // namespace pen::config
