#include "lib/queue/queue_log/ordinals.h"

#include <algorithm>

#include "lib/base/check.h"

namespace pen::queue_log {

OrdinalSet OrdinalSet::span(std::uint32_t first, std::uint32_t end) {
  OrdinalSet set;
  if (first < end) set.ranges_.push_back({first, end});
  return set;
}

void OrdinalSet::add(const OrdinalSet& other) {
  if (other.empty()) return;
  std::vector<Range> all;
  all.reserve(ranges_.size() + other.ranges_.size());
  std::merge(ranges_.begin(), ranges_.end(), other.ranges_.begin(), other.ranges_.end(), std::back_inserter(all),
             [](const Range& a, const Range& b) { return a.first < b.first; });
  std::vector<Range> joined;
  for (const Range& r : all) {
    if (!joined.empty() && r.first <= joined.back().end)
      joined.back().end = std::max(joined.back().end, r.end);
    else
      joined.push_back(r);
  }
  ranges_ = std::move(joined);
}

void OrdinalSet::remove(const OrdinalSet& other) {
  std::vector<Range> left;
  auto cut = other.ranges_.begin();
  for (Range r : ranges_) {
    while (cut != other.ranges_.end() && cut->end <= r.first) ++cut;
    for (auto c = cut; c != other.ranges_.end() && c->first < r.end; ++c) {
      if (c->first > r.first) left.push_back({r.first, c->first});
      r.first = std::max(r.first, c->end);
    }
    if (r.first < r.end) left.push_back(r);
  }
  ranges_ = std::move(left);
}

bool OrdinalSet::contains(std::uint32_t ordinal) const {
  auto after = std::upper_bound(ranges_.begin(), ranges_.end(), ordinal,
                                [](std::uint32_t o, const Range& r) { return o < r.first; });
  return after != ranges_.begin() && ordinal < std::prev(after)->end;
}

std::uint64_t OrdinalSet::count() const {
  std::uint64_t n = 0;
  for (const Range& r : ranges_) n += r.end - r.first;
  return n;
}

bool OrdinalSet::well_formed() const {
  std::uint64_t least = 0;
  for (const Range& r : ranges_) {
    if (r.first < least || r.first >= r.end) return false;
    least = std::uint64_t{r.end} + 1;
  }
  return true;
}

}  // namespace pen::queue_log
