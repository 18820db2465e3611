#include "lib/queue/queue_log/id_filter.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>

namespace pen::queue_log {
namespace {

/// Calls see(byte, mask) for each probe in a filter of `bytes` bytes until it answers false.
template <class See>
void probe(std::uint64_t hash, std::size_t bytes, See see) {
  const std::uint64_t step = (hash >> 32) | 1;
  std::uint64_t at = hash;
  for (unsigned i = 0; i < IdFilter::kProbes; ++i, at += step) {
    const std::uint64_t bit = at & (std::uint64_t{bytes} * 8 - 1);
    if (!see(static_cast<std::size_t>(bit / 8), static_cast<unsigned char>(1U << (bit % 8)))) return;
  }
}

}  // namespace

std::uint64_t IdFilter::hash(std::string_view queue_id) { return XXH3_64bits(queue_id.data(), queue_id.size()); }

void IdFilter::set(std::uint64_t hash) {
  probe(hash, bits_.size(), [this](std::size_t byte, unsigned char mask) {
    bits_[byte] = static_cast<char>(static_cast<unsigned char>(bits_[byte]) | mask);
    return true;
  });
}

void IdFilter::add(std::uint64_t hash) {
  if (bits_.empty()) return;
  probe(hash, bits_.size(), [this](std::size_t byte, unsigned char) {
    __builtin_prefetch(&bits_[byte], 1);
    return true;
  });
  std::uint64_t& oldest = waiting_[count_ % kWaiting];
  if (count_ >= kWaiting) set(oldest);
  oldest = hash;
  ++count_;
}

std::string IdFilter::packed() const {
  IdFilter whole = *this;
  for (std::size_t i = 0; i < std::min(count_, kWaiting); ++i) whole.set(waiting_[i]);
  std::string out = std::move(whole.bits_);
  while (out.size() > kMinBytes && out.size() / 2 * 8 >= count_ * kBitsPerId) {
    const std::size_t half = out.size() / 2;
    for (std::size_t i = 0; i < half; ++i) out[i] = static_cast<char>(out[i] | out[half + i]);
    out.resize(half);
  }
  return out;
}

bool IdFilter::may_contain(std::uint64_t hash) const {
  const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(count_, kWaiting));
  return std::find(waiting_.begin(), end, hash) != end || may_contain(bits_, hash);
}

bool IdFilter::may_contain(std::string_view packed, std::uint64_t hash) {
  if (packed.size() < kMinBytes || !std::has_single_bit(packed.size())) return true;
  bool perhaps = true;
  probe(hash, packed.size(), [&](std::size_t byte, unsigned char mask) {
    perhaps = (static_cast<unsigned char>(packed[byte]) & mask) != 0;
    return perhaps;
  });
  return perhaps;
}

}  // namespace pen::queue_log
