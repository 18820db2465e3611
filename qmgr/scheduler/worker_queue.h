#pragma once
/// Which message takes the next free worker: the first come, among those that may.
///
/// This is next_router_job() and allowed_new_worker() of docs/origins.md without its walk over all jobs:
/// messages that hold too many workers stand aside, ordered by how many they hold, and come back
/// when enough workers are free or when they hold fewer. Most messages join at the end of the line, or nearly so, and
/// that costs no search; a message that comes back to its old place in the midst of others goes to a tree beside the
/// line. An operation is O(log n) in the number of those at most. Used for routing (a worker is one look-up) and per
/// transport for delivery (a worker is one connection).
#include <cstdint>
#include <set>
#include <utility>

#include "lib/base/link.h"

namespace pen::qmgr {

struct Fairness {
  std::uint32_t max_message_concurrency = 4;
  std::uint32_t scale_max_concurrency = 4;
  /// allowed_new_worker() of docs/origins.md.
  bool allowed(std::uint64_t concurrency, std::uint64_t free_workers) const {
    return concurrency < max_message_concurrency || concurrency < scale_max_concurrency * free_workers;
  }
  /// The fewest free workers with which it is allowed.
  std::uint64_t needed(std::uint64_t concurrency) const {
    if (concurrency < max_message_concurrency) return 1;
    return scale_max_concurrency == 0 ? ~std::uint64_t{0} : concurrency / scale_max_concurrency + 1;
  }
};

inline constexpr std::uint32_t kNoCap = ~std::uint32_t{0};

template <class T>
class WorkerQueue {
 public:
  struct Entry;

 private:
  using Order = std::pair<std::uint64_t, Entry*>;
  using Late = std::set<Order>;
  using Aside = std::set<std::pair<std::uint64_t, Order>>;

 public:
  struct Entry : Link {
    explicit Entry(T* owner) : self(owner) {}
    T* self;
    std::uint64_t seq = 0;          // order of admission, or of the first wait
    std::uint32_t concurrency = 0;  // as of the last update()
    std::uint32_t most = kNoCap;    // workers that it may hold, however many are free
    // Its own place: to leave from the midst of a million costs no search.
    union {
      typename Late::iterator in_late{};  // where == late
      typename Aside::iterator in_aside;  // where == aside
    };
    enum class Where : std::uint8_t { out, line, late, aside, capped } where = Where::out;
  };

  ~WorkerQueue() {
    while (line_.linked()) line_.next->unlink();
  }
  void add(Entry& e) {
    if (e.where != Entry::Where::out) return;
    ++size_;
    Link* before = line_.prev;
    for (int steps = 0; before != &line_ && of(before).seq > e.seq; ++steps) {
      if (steps == kSteps) {
        e.where = Entry::Where::late;
        e.in_late = late_.emplace(e.seq, &e).first;
        return;
      }
      before = before->prev;
    }
    e.where = Entry::Where::line;
    before->push_front(e);  // right behind it
  }
  void remove(Entry& e) {
    switch (e.where) {
      case Entry::Where::out:
        return;
      case Entry::Where::line:
        e.unlink();
        break;
      case Entry::Where::late:
        late_.erase(e.in_late);
        break;
      case Entry::Where::aside:
        aside_.erase(e.in_aside);
        break;
      case Entry::Where::capped:
        break;
    }
    --size_;
    e.where = Entry::Where::out;
  }
  void update(Entry& e, std::uint32_t concurrency) {
    const auto was = e.where;
    if (was == Entry::Where::aside) remove(e);
    e.concurrency = concurrency;
    if (was == Entry::Where::aside) put_aside(e);
    if (was == Entry::Where::capped && concurrency < e.most) {
      remove(e);
      add(e);
    }
  }
  /// The first that may take one of `free` workers; stays in the queue. nullptr: none may.
  T* next(const Fairness& fairness, std::uint64_t free) {
    if (free == 0) return nullptr;
    while (!aside_.empty() && fairness.allowed(aside_.begin()->first, free)) {
      Entry& e = *aside_.begin()->second.second;
      remove(e);
      add(e);
    }
    while (Entry* e = first()) {
      const bool capped = e->concurrency >= e->most;
      if (!capped && fairness.allowed(e->concurrency, free)) return e->self;
      remove(*e);
      if (capped) {
        ++size_;
        e->where = Entry::Where::capped;
      } else {
        put_aside(*e);
      }
    }
    return nullptr;
  }
  std::size_t size() const { return size_; }
  /// How many workers must be free for next() to find one, as far as it has looked.
  std::uint64_t needed(const Fairness& fairness) const {
    if (first() != nullptr) return 1;
    return aside_.empty() ? ~std::uint64_t{0} : fairness.needed(aside_.begin()->first);
  }
  /// One of those that came first, or last, whether it may take a worker or not. nullptr: the queue is empty.
  T* front() const {
    if (const Entry* e = first()) return e->self;
    return aside_.empty() ? nullptr : aside_.begin()->second.second->self;
  }
  T* back() const {
    const Entry* last = line_.linked() ? &of(line_.prev) : nullptr;
    if (!late_.empty() && (last == nullptr || late_.rbegin()->first > last->seq)) last = late_.rbegin()->second;
    if (last != nullptr) return last->self;
    return aside_.empty() ? nullptr : aside_.rbegin()->second.second->self;
  }

 private:
  static constexpr int kSteps = 16;  // back from the end of the line: look-ups that overtook others
  static Entry& of(Link* link) { return *static_cast<Entry*>(link); }
  Entry* first() const {
    Entry* const in_line = line_.linked() ? &of(line_.next) : nullptr;
    Entry* const late = late_.empty() ? nullptr : late_.begin()->second;
    if (in_line == nullptr || late == nullptr) return in_line == nullptr ? late : in_line;
    return in_line->seq < late->seq ? in_line : late;
  }
  void put_aside(Entry& e) {
    ++size_;
    e.where = Entry::Where::aside;
    e.in_aside = aside_.insert({e.concurrency, {e.seq, &e}}).first;
  }
  Link line_;  // by seq
  Late late_;
  Aside aside_;
  std::size_t size_ = 0;
};

}  // namespace pen::qmgr
