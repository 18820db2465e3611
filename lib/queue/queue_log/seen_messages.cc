#include "lib/queue/queue_log/seen_messages.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace pen::queue_log {

namespace {
constexpr std::size_t kSmallest = 256;  // slots
}

SeenMessages::~SeenMessages() {
  for (Seen* seen : order_) std::destroy_at(seen);
}

std::size_t SeenMessages::place_of(std::string_view queue_id, std::uint32_t tag) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = tag & mask;
  for (; slots_[at].entry != 0; at = (at + 1) & mask)
    if (slots_[at].tag == tag && order_[slots_[at].entry - 1]->queue_id == queue_id) break;
  return at;
}

const SeenMessages::Seen* SeenMessages::find(std::string_view queue_id, std::uint64_t hash) const {
  if (slots_.empty()) return nullptr;
  const Slot& slot = slots_[place_of(queue_id, static_cast<std::uint32_t>(hash))];
  return slot.entry == 0 ? nullptr : order_[slot.entry - 1];
}

SeenMessages::Seen& SeenMessages::of(std::string_view queue_id, std::uint64_t hash) {
  if (2 * (order_.size() + 1) > slots_.size()) grow();
  const auto tag = static_cast<std::uint32_t>(hash);
  Slot& slot = slots_[place_of(queue_id, tag)];
  if (slot.entry != 0) return *order_[slot.entry - 1];
  auto* const id = static_cast<char*>(memory_.allocate(queue_id.size(), 1));
  std::memcpy(id, queue_id.data(), queue_id.size());
  void* const at = memory_.allocate(sizeof(Seen), alignof(Seen));
  order_.push_back(::new (at) Seen({id, queue_id.size()}, &memory_));
  slot = {tag, static_cast<std::uint32_t>(order_.size())};
  return *order_.back();
}

void SeenMessages::grow() {
  const std::vector<Slot> before = std::move(slots_);
  slots_.assign(std::max(kSmallest, 2 * before.size()), Slot{});
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& slot : before) {
    if (slot.entry == 0) continue;
    std::size_t at = slot.tag & mask;
    while (slots_[at].entry != 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

}  // namespace pen::queue_log
