#include <list>
#include <unordered_map>

#include "lib/net/tls/context.h"

namespace pen::tls {
namespace {

/// A list in order of last use, and an index into it.
class MemorySessionCache final : public SessionCache {
 public:
  MemorySessionCache(std::size_t most, seconds lifetime, const Clock& clock)
      : most_(most), lifetime_(lifetime), clock_(clock) {}

  std::optional<std::string> find(const std::string& key) override {
    const auto found = index_.find(key);
    if (found == index_.end()) return std::nullopt;
    if (clock_.now() >= found->second->until) {
      drop(found);
      return std::nullopt;
    }
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->session;
  }
  void put(const std::string& key, std::string session) override {
    forget(key);
    if (most_ == 0) return;
    if (entries_.size() >= most_) drop(index_.find(entries_.back().key));
    entries_.push_front({key, std::move(session), clock_.now() + lifetime_});
    index_.emplace(key, entries_.begin());
  }
  void forget(const std::string& key) override {
    if (const auto found = index_.find(key); found != index_.end()) drop(found);
  }

 private:
  struct Entry {
    std::string key, session;
    SteadyTime until;
  };
  using Index = std::unordered_map<std::string, std::list<Entry>::iterator>;
  void drop(Index::iterator at) {
    const auto entry = at->second;
    index_.erase(at);
    entries_.erase(entry);
  }

  std::size_t most_;
  seconds lifetime_;
  const Clock& clock_;
  std::list<Entry> entries_;  // most recently used first
  Index index_;
};

}  // namespace

std::shared_ptr<SessionCache> memory_session_cache(std::size_t most, seconds lifetime, const Clock& clock) {
  return std::make_shared<MemorySessionCache>(most, lifetime, clock);
}

}  // namespace pen::tls
