#include "lib/net/dns_cache.h"

namespace pen::net {
namespace {

std::size_t cost_of(const std::string& key, const DnsAnswer& answer) {
  std::size_t bytes = 256 + 2 * key.size() + answer.name.size() + answer.text.size();
  for (const auto& r : answer.records) bytes += sizeof r + r.name.size() + r.data.size();
  return bytes;
}

}  // namespace

std::optional<DnsAnswer> DnsCache::get(const std::string& key, SteadyTime now) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  const auto entry = found->second;
  if (entry->expires <= now) {
    remove(entry);
    return std::nullopt;
  }
  order_.splice(order_.begin(), order_, entry);
  DnsAnswer answer = entry->answer;
  answer.ttl = std::chrono::ceil<seconds>(entry->expires - now);
  return answer;
}

void DnsCache::put(const std::string& key, const DnsAnswer& answer, SteadyTime now) {
  if (const auto old = by_key_.find(key); old != by_key_.end()) remove(old->second);
  const std::size_t cost = cost_of(key, answer);
  if (answer.ttl <= seconds(0) || cost > max_bytes_ || max_entries_ == 0) return;
  while (!order_.empty() && (by_key_.size() >= max_entries_ || bytes_ + cost > max_bytes_))
    remove(std::prev(order_.end()));
  order_.push_front({key, answer, now + answer.ttl, cost});
  by_key_.emplace(key, order_.begin());
  bytes_ += cost;
}

void DnsCache::remove(Order::iterator entry) {
  bytes_ -= entry->cost;
  by_key_.erase(entry->key);
  order_.erase(entry);
}
void DnsCache::clear() {
  by_key_.clear();
  order_.clear();
  bytes_ = 0;
}

}  // namespace pen::net
