#pragma once
/// Which message takes the next free worker: the first come, among those that may.
///
/// This is next_router_job() and allowed_new_worker() of seed 000 without its walk over all jobs:
/// messages that hold too many workers stand aside, ordered by how many they hold, and come back
/// when enough workers are free or when they hold fewer. Every operation is O(log n) in the number
/// of waiting messages. Used for routing (a worker is one look-up) and per transport for delivery
/// (a worker is one connection).
#include <cstdint>
#include <set>
#include <utility>

namespace pen::qmgr {

struct Fairness {
  std::uint32_t max_message_concurrency = 4;
  std::uint32_t scale_max_concurrency = 4;
  /// allowed_new_worker() of seed 000.
  bool allowed(std::uint64_t concurrency, std::uint64_t free_workers) const {
    return concurrency < max_message_concurrency ||
           concurrency < scale_max_concurrency * free_workers;
  }
};

template <class T>
class WorkerQueue {
 public:
  struct Entry;

 private:
  using Order = std::pair<std::uint64_t, Entry*>;
  using Ready = std::set<Order>;
  using Aside = std::set<std::pair<std::uint64_t, Order>>;

 public:
  struct Entry {
    explicit Entry(T* owner) : self(owner) {}
    T* self;
    std::uint64_t seq = 0;          // order of admission
    std::uint64_t concurrency = 0;  // as of the last update()
    enum class Where : std::uint8_t { out, ready, aside } where = Where::out;
    // Its own place: to leave from the midst of a million costs no search.
    typename Ready::iterator in_ready{};
    typename Aside::iterator in_aside{};
  };

  void add(Entry& e) {
    if (e.where != Entry::Where::out) return;
    e.where = Entry::Where::ready;
    e.in_ready = ready_.emplace_hint(ready_.end(), e.seq, &e);  // mostly the last to come
  }
  void remove(Entry& e) {
    if (e.where == Entry::Where::ready) ready_.erase(e.in_ready);
    if (e.where == Entry::Where::aside) aside_.erase(e.in_aside);
    e.where = Entry::Where::out;
  }
  void update(Entry& e, std::uint64_t concurrency) {
    const auto was = e.where;
    if (was == Entry::Where::aside) remove(e);
    e.concurrency = concurrency;
    if (was == Entry::Where::aside) put_aside(e);
  }
  /// The first that may take one of `free` workers; stays in the queue. nullptr: nobody.
  T* next(const Fairness& fairness, std::uint64_t free) {
    if (free == 0) return nullptr;
    while (!aside_.empty() && fairness.allowed(aside_.begin()->first, free)) {
      Entry& e = *aside_.begin()->second.second;
      remove(e);
      add(e);
    }
    while (!ready_.empty()) {
      Entry& e = *ready_.begin()->second;
      if (fairness.allowed(e.concurrency, free)) return e.self;
      remove(e);
      put_aside(e);
    }
    return nullptr;
  }
  std::size_t size() const { return ready_.size() + aside_.size(); }

 private:
  void put_aside(Entry& e) {
    e.where = Entry::Where::aside;
    e.in_aside = aside_.insert({e.concurrency, {e.seq, &e}}).first;
  }
  Ready ready_;
  Aside aside_;
};

}  // namespace pen::qmgr
