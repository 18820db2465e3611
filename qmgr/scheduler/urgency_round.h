#pragma once
/// Lines in which classes of urgency take turns (urgency.h).
///
/// Use:     UrgencyRound in place of a List of what goes round, UrgencyQueue in place of a WorkerQueue. What waits in
///          them has turn().
/// Cost:    constant, and without other mail than normal that of one comparison with nullptr.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "qmgr/scheduler/list.h"
#include "qmgr/scheduler/urgency.h"
#include "qmgr/scheduler/worker_queue.h"

namespace pen::qmgr {

/// A list of what goes round, in turns by class and in each class one after the other.
template <class T>
class UrgencyRound {
 public:
  bool empty() const { return usual_.empty() && (!more_ || (more_->bulk.empty() && more_->urgent.empty())); }
  T* front() const { return more_ ? pick(true).front() : usual_.front(); }
  /// The last of the class with the last turn.
  T* back() const { return more_ ? pick(false).back() : usual_.back(); }
  void push_back(Node<T>& node) { line_for(node).push_back(node); }
  void push_front(Node<T>& node) { line_for(node).push_front(node); }
  /// The first one is served, with so many recipients: the next one's turn comes.
  void rotate(std::size_t recipients) {
    if (!more_) return usual_.rotate();
    List<T>& line = pick(true);
    if (line.empty()) return;
    more_->turns.served(line.front()->turn(), recipients);
    line.rotate();
  }
  template <class F>
  void for_each(F&& f) const {  // f may not change the round
    usual_.for_each(f);
    if (!more_) return;
    more_->bulk.for_each(f);
    more_->urgent.for_each(f);
  }
  void prefetch_front() const {
    if (!more_) usual_.prefetch_front();
  }

 private:
  struct More {
    List<T> bulk, urgent;
    UrgencyTurns turns;
  };
  List<T>& line(Urgency u) const {
    return u == Urgency::bulk ? more_->bulk : u == Urgency::urgent ? more_->urgent : usual_;
  }
  List<T>& line_for(const Node<T>& node) {
    const Urgency u = node.self->turn().urgency;
    if (more_ && empty()) more_.reset();
    if (!more_ && u == Urgency::normal) return usual_;
    if (!more_) more_ = std::make_unique<More>();
    if (line(u).empty()) more_->turns.begins(u);
    return line(u);
  }
  /// Of the classes that wait, the one with the first turn, or with the last.
  List<T>& pick(bool first) const {
    Urgency best = Urgency::normal;
    for (const Urgency u : {Urgency::bulk, Urgency::urgent})
      if (!line(u).empty() && (line(best).empty() || more_->turns.before(u, best) == first)) best = u;
    return line(best);
  }

  mutable List<T> usual_;
  std::unique_ptr<More> more_;  // since something else than normal mail came, until nothing waits
};

/// A WorkerQueue for each class, and the turns among them.
template <class T>
class UrgencyQueue {
 public:
  using Entry = typename WorkerQueue<T>::Entry;

  void add(Entry& e) {
    const Urgency u = e.self->turn().urgency;
    if (more_ && size() == 0) more_.reset();
    if (!more_ && u != Urgency::normal) more_ = std::make_unique<More>();
    if (more_ && line(u).size() == 0) more_->turns.begins(u);
    line(u).add(e);
  }
  void remove(Entry& e) { line_of(e).remove(e); }
  void update(Entry& e, std::uint32_t concurrency) { line_of(e).update(e, concurrency); }
  /// The first that may take one of `free` workers; stays in the queue. nullptr: none may.
  T* next(const Fairness& fairness, std::uint64_t free) {
    if (!more_) return usual_.next(fairness, free);
    for (const Urgency u : order())
      if (T* const found = line(u).next(fairness, free)) return found;
    return nullptr;
  }
  /// What next() named has been served, with so many recipients.
  void served(UrgencyTurn turn, std::size_t recipients) {
    if (more_) more_->turns.served(turn, recipients);
  }
  std::size_t size() const { return usual_.size() + (more_ ? more_->bulk.size() + more_->urgent.size() : 0); }
  /// The first urgent one, whether it may take a worker or not; nullptr: there is none.
  T* urgent() const { return more_ ? more_->urgent.front() : nullptr; }
  std::uint64_t needed(const Fairness& fairness) const {
    std::uint64_t least = usual_.needed(fairness);
    if (more_) least = std::min({least, more_->bulk.needed(fairness), more_->urgent.needed(fairness)});
    return least;
  }
  T* front() const {
    if (!more_) return usual_.front();
    for (const Urgency u : order())
      if (T* const found = line(u).front()) return found;
    return nullptr;
  }
  T* back() const {
    if (!more_) return usual_.back();
    const auto all = order();
    for (auto u = all.rbegin(); u != all.rend(); ++u)
      if (T* const found = line(*u).back()) return found;
    return nullptr;
  }

 private:
  struct More {
    WorkerQueue<T> bulk, urgent;
    UrgencyTurns turns;
  };
  WorkerQueue<T>& line(Urgency u) const {
    return u == Urgency::bulk ? more_->bulk : u == Urgency::urgent ? more_->urgent : usual_;
  }
  /// Where the entry would be; one that never waited may be of a class that nothing waits of.
  WorkerQueue<T>& line_of(const Entry& e) const {
    const Urgency u = e.self->turn().urgency;
    return more_ || u == Urgency::normal ? line(u) : usual_;
  }
  std::array<Urgency, kUrgencies> order() const {
    std::array<Urgency, kUrgencies> all{Urgency::urgent, Urgency::normal, Urgency::bulk};
    std::ranges::sort(all, [this](Urgency a, Urgency b) { return more_->turns.before(a, b); });
    return all;
  }

  mutable WorkerQueue<T> usual_;
  std::unique_ptr<More> more_;  // since something else than normal mail came, until nothing waits
};

}  // namespace pen::qmgr
