#pragma once
/// An UrgencyQueue for each tenant, and the turns among them.
///
/// Use:     as a WorkerQueue, which has the same functions; served() when what next() named has left for good, with
///          its tenant and its turn().
/// Cost:    without tenants that of a WorkerQueue and one comparison. With them O(log n) in the tenants that wait, too.
/// Rules:   a tenant that may not take one of the free workers (Fairness, for what all its parties hold together), or
///          has no party that may, stands aside, ordered by how many must be free: no code walks over all tenants.
///          T::owner() is the tenant, nullptr where there are no tenants: then all are one.
#include <set>
#include <utility>

#include "qmgr/scheduler/tenant.h"
#include "qmgr/scheduler/urgency_round.h"

namespace pen::qmgr::scheduler {

template <class T>
class TenantQueue {
 public:
  using Entry = typename WorkerQueue<T>::Entry;
  /// held: what counts here as a tenant's workers.
  explicit TenantQueue(std::uint32_t Tenant::* held) : held_(held) {}
  TenantQueue(const TenantQueue&) = delete;
  TenantQueue& operator=(const TenantQueue&) = delete;

  void add(Entry& e) {
    Tenant* const t = e.self->owner();
    if (t == nullptr) return plain_.add(e);
    Line& line = line_of(*t);
    const std::size_t before = line.waiting.size();
    line.waiting.add(e);
    size_ += line.waiting.size() - before;
    line.look();
  }
  void remove(Entry& e) {
    Tenant* const t = e.self->owner();
    if (t == nullptr) return plain_.remove(e);
    Line* const line = find(*t);
    if (line == nullptr) return;
    const std::size_t before = line->waiting.size();
    line->waiting.remove(e);
    size_ -= before - line->waiting.size();
    if (line->waiting.size() == 0) line->leave();
  }
  void update(Entry& e, std::uint32_t concurrency) {
    Tenant* const t = e.self->owner();
    Line* const line = t == nullptr ? nullptr : find(*t);
    if (line == nullptr) return plain_.update(e, concurrency);
    line->waiting.update(e, concurrency);
    (void)line->may_have_more();
  }
  T* next(const Fairness& fairness, std::uint64_t free) {
    if (size_ == 0) return plain_.next(fairness, free);
    if (free == 0) return nullptr;
    while (!aside_.empty() && aside_.begin()->first <= free) aside_.begin()->second->look();
    while (!ready_.empty()) {
      Line& line = *ready_.begin()->line;
      const std::uint64_t holds = line.tenant.weighed(line.tenant.*held_);
      if (fairness.allowed(holds, free)) {
        if (T* const found = line.waiting.next(fairness, free)) {
          turns_.serves(line.had);
          return found;
        }
      }
      line.stand_aside(std::max(fairness.needed(holds), line.waiting.needed(fairness)));
    }
    return nullptr;
  }
  /// An element of the tenant has been served, with so many recipients.
  void served(Tenant* tenant, UrgencyTurn turn, std::size_t recipients) {
    if (tenant == nullptr) return plain_.served(turn, recipients);
    Line* const line = find(*tenant);
    if (line == nullptr) return;
    line->waiting.served(turn, recipients);
    line->charge(tenant->turn_of(recipients));
  }
  /// An urgent one that waits, of the tenant with the first turn; nullptr: there is none.
  T* urgent() const { return ready_.empty() ? plain_.urgent() : ready_.begin()->line->waiting.urgent(); }
  std::size_t size() const { return plain_.size() + size_; }
  /// One of those that came first, or last, whether it may take a worker or not; of the tenant with the first turn, or
  /// the last. nullptr: the queue is empty.
  T* front() const {
    if (size_ == 0) return plain_.front();
    return (ready_.empty() ? aside_.begin()->second : ready_.begin()->line)->waiting.front();
  }
  T* back() const {
    if (size_ == 0) return plain_.back();
    return (ready_.empty() ? aside_.rbegin()->second : ready_.rbegin()->line)->waiting.back();
  }

 private:
  struct Line;
  struct Turn {
    std::uint64_t had;
    std::uint32_t tenant;
    Line* line;
    bool operator<(const Turn& other) const { return std::pair(had, tenant) < std::pair(other.had, other.tenant); }
  };
  struct Line final : TenantLine {
    Line(TenantQueue& q, Tenant& t) : TenantLine(&q), in(q), tenant(t) {}
    ~Line() override { leave(); }
    /// It waits in its turn.
    void look() {
      if (where == Where::ready) return;
      leave();
      had = in.turns_.begin(had);
      in_ready = in.ready_.insert({had, tenant.number, this}).first;
      where = Where::ready;
    }
    void stand_aside(std::uint64_t free) {
      leave();
      in_aside = in.aside_.emplace(free, this).first;
      where = Where::aside;
    }
    void leave() {
      if (where == Where::ready) in.ready_.erase(in_ready);
      if (where == Where::aside) in.aside_.erase(in_aside);
      where = Where::out;
    }
    void charge(std::uint64_t turn) {
      had = in.turns_.begin(had) + turn;
      if (where != Where::ready) return;
      in.ready_.erase(in_ready);
      in_ready = in.ready_.insert({had, tenant.number, this}).first;
    }
    bool may_have_more() override {
      if (where != Where::aside) return false;
      look();
      return true;
    }
    TenantQueue& in;
    Tenant& tenant;
    UrgencyQueue<T> waiting;
    std::uint64_t had = 0;
    typename std::set<Turn>::iterator in_ready;
    typename std::set<std::pair<std::uint64_t, Line*>>::iterator in_aside;
    enum class Where : std::uint8_t { out, ready, aside } where = Where::out;
  };
  Line* find(const Tenant& t) const {
    for (const auto& line : t.lines)
      if (line->queue == this) return static_cast<Line*>(line.get());
    return nullptr;
  }
  Line& line_of(Tenant& t) {
    if (Line* const known = find(t)) return *known;
    return static_cast<Line&>(*t.lines.emplace_back(std::make_unique<Line>(*this, t)));
  }

  std::uint32_t Tenant::* const held_;
  UrgencyQueue<T> plain_;
  std::set<Turn> ready_;
  std::set<std::pair<std::uint64_t, Line*>> aside_;  // by how many workers must be free
  TenantTurns turns_;
  std::size_t size_ = 0;  // in lines
};

}  // namespace pen::qmgr::scheduler
