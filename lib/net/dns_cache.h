#pragma once
/// Keeps answers until their TTL ends. When entries or bytes exceed the bound, the least recently used go first.
///
/// Pure: each call passes the time. Thread: one.
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include "lib/net/dns.h"

namespace pen::net {

class DnsCache {
 public:
  DnsCache(std::size_t max_entries, std::size_t max_bytes) : max_entries_(max_entries), max_bytes_(max_bytes) {}
  /// The answer with the rest of its TTL; nullopt: none, or it has expired.
  std::optional<DnsAnswer> get(const std::string& key, SteadyTime now);
  /// Keeps the answer for answer.ttl; an answer with TTL 0 is not kept.
  void put(const std::string& key, const DnsAnswer& answer, SteadyTime now);
  void clear();
  std::size_t entries() const { return by_key_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::string key;
    DnsAnswer answer;
    SteadyTime expires;
    std::size_t cost = 0;
  };
  using Order = std::list<Entry>;  // most recently used first
  void remove(Order::iterator entry);
  std::size_t max_entries_, max_bytes_, bytes_ = 0;
  Order order_;
  std::unordered_map<std::string, Order::iterator> by_key_;
};

}  // namespace pen::net
