#include "lib/queue_log/recent_ids.h"

#include <xxhash.h>

#include <algorithm>

namespace pen::queue_log {

namespace {
constexpr std::size_t kSmallest = 256;  // slots
}

RecentIds::Key RecentIds::key_of(std::string_view queue_id) const {
  const XXH128_hash_t h = XXH3_128bits_withSeed(queue_id.data(), queue_id.size(), seed_);
  return {std::max<std::uint64_t>(h.low64, 1), h.high64};
}

std::size_t RecentIds::Table::place(const Key& key) const {
  const std::size_t mask = slots.size() - 1;
  std::size_t at = key.high & mask;
  while (slots[at].key.low != 0 && slots[at].key != key) at = (at + 1) & mask;
  return at;
}

const RecentIds::Accepted* RecentIds::Table::find(const Key& key) const {
  if (used == 0) return nullptr;
  const Slot& slot = slots[place(key)];
  return slot.key.low == 0 ? nullptr : &slot.accepted;
}

void RecentIds::Table::grow() {
  std::vector<Slot> old(std::max(kSmallest, slots.size() * 2));
  old.swap(slots);
  for (const Slot& slot : old)
    if (slot.key.low != 0) slots[place(slot.key)] = slot;
}

const RecentIds::Accepted* RecentIds::find(std::string_view queue_id) const {
  const Key key = key_of(queue_id);
  const Accepted* known = newer_.find(key);
  return known != nullptr ? known : older_.find(key);
}

void RecentIds::add(std::string_view queue_id, const Accepted& accepted) {
  const Key key = key_of(queue_id);
  if (newer_.find(key) != nullptr || older_.find(key) != nullptr) return;
  if (newer_.used >= least_) {
    std::swap(newer_, older_);
    std::fill(newer_.slots.begin(), newer_.slots.end(), Slot{});
    newer_.used = 0;
  }
  if (newer_.used * 2 >= newer_.slots.size()) newer_.grow();
  newer_.slots[newer_.place(key)] = {key, accepted};
  ++newer_.used;
}

}  // namespace pen::queue_log
