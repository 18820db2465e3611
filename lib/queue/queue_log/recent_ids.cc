#include "lib/queue/queue_log/recent_ids.h"

#include <xxhash.h>

#include <algorithm>

namespace pen::queue_log {

namespace {
constexpr std::size_t kSmallest = 256;  // slots
constexpr std::size_t kFew = 1024;      // entries
std::uint32_t tag_of(std::uint64_t low) { return static_cast<std::uint32_t>(low); }
}  // namespace

RecentIds::Key RecentIds::key_of(std::string_view queue_id) const {
  const XXH128_hash_t h = XXH3_128bits_withSeed(queue_id.data(), queue_id.size(), seed_);
  return {h.low64, h.high64};
}

const RecentIds::Accepted* RecentIds::Generation::find(const Key& key) const {
  if (entries.empty()) return nullptr;
  const std::size_t mask = slots.size() - 1;
  for (std::size_t at = key.high & mask; slots[at].entry != 0; at = (at + 1) & mask) {
    if (slots[at].tag != tag_of(key.low)) continue;
    const Entry& entry = entries[slots[at].entry - 1];
    if (entry.key == key) return &entry.accepted;
  }
  return nullptr;
}

void RecentIds::Generation::place(std::size_t entry) {
  const Key& key = entries[entry].key;
  const std::size_t mask = slots.size() - 1;
  std::size_t at = key.high & mask;
  while (slots[at].entry != 0) at = (at + 1) & mask;
  slots[at] = {tag_of(key.low), static_cast<std::uint32_t>(entry + 1)};
}

void RecentIds::Generation::add(const Key& key, const Accepted& accepted, std::size_t most) {
  // Once there are many, room for all of them: pages that nobody touched cost nothing, copying would stop everything.
  if (entries.size() == kFew) entries.reserve(most);
  entries.push_back({key, accepted});
  if (entries.size() * 2 <= slots.size()) return place(entries.size() - 1);
  slots.assign(std::max(kSmallest, slots.size() * 2), {});
  for (std::size_t entry = 0; entry < entries.size(); ++entry) place(entry);
}

void RecentIds::Generation::clear() {
  entries.clear();
  std::fill(slots.begin(), slots.end(), Slot{});
}

const RecentIds::Accepted* RecentIds::find(const Key& key) const {
  const Accepted* known = newer_.find(key);
  return known != nullptr ? known : older_.find(key);
}

void RecentIds::add(const Key& key, const Accepted& accepted) {
  const Accepted* const known = find(key);
  if (known == nullptr) return add_new(key, accepted);
  if (known->arrived != WallTime::min()) return;
  Accepted with_arrival = *known;
  with_arrival.arrived = accepted.arrived;
  set(key, with_arrival);
}

void RecentIds::set(const Key& key, const Accepted& accepted) {
  // Only what is const of this object is const to find().
  if (auto* known = const_cast<Accepted*>(find(key))) {
    *known = accepted;
  } else {
    add_new(key, accepted);
  }
}

void RecentIds::add_new(const Key& key, const Accepted& accepted) {
  if (newer_.entries.size() >= half_) {
    std::swap(newer_, older_);
    newer_.clear();
    ++forgettings_;
  }
  newer_.add(key, accepted, half_);
}

}  // namespace pen::queue_log
