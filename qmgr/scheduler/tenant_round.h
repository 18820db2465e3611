#pragma once
/// What waits in a cluster, in turns: those of each tenant go round among themselves, by how urgent they are
/// (urgency_round.h), and tenants have turns by recipients and weights (tenant.h).
///
/// Use:     as the List that it is without tenants; rotate() says how many recipients the first one took
///          away, and remove() is called before an element goes.
/// Cost:    O(log n) in the tenants that wait here.
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "qmgr/scheduler/list.h"
#include "qmgr/scheduler/tenant.h"
#include "qmgr/scheduler/urgency_round.h"

namespace pen::qmgr::scheduler {

template <class T>
class TenantRound {
 public:
  TenantRound() = default;
  TenantRound(const TenantRound&) = delete;
  TenantRound& operator=(const TenantRound&) = delete;

  /// nullptr: nothing waits.
  T* front() const {
    if (!lines_) return plain_.front();
    return lines_->ready.empty() ? nullptr : lines_->ready.begin()->line->waiting.front();
  }
  /// The last of the tenant with the last turn.
  T* back() const {
    if (!lines_) return plain_.back();
    return lines_->ready.empty() ? nullptr : lines_->ready.rbegin()->line->waiting.back();
  }
  void push_back(Node<T>& node) { put(node, false); }
  void push_front(Node<T>& node) { put(node, true); }
  /// The first one is served, with so many recipients: the next one's turn comes.
  void rotate(std::size_t recipients) {
    if (!lines_) return plain_.rotate(recipients);
    if (lines_->ready.empty()) return;
    Line& line = *lines_->ready.begin()->line;
    lines_->turns.serves(line.had);
    line.waiting.rotate(recipients);
    lines_->ready.erase(lines_->ready.begin());
    line.had += line.tenant->turn_of(recipients);
    lines_->ready.insert({line.had, line.tenant->number, &line});
  }
  void remove(Node<T>& node) {
    node.unlink();
    if (!lines_) return;
    const auto found = lines_->of.find(node.self->owner()->number);
    if (found == lines_->of.end() || !found->second.waiting.empty()) return;
    Line& line = found->second;
    lines_->ready.erase({line.had, found->first, &line});
    // A tenant that has had more than the others does not lose that mark by leaving for a moment.
    if (line.had <= lines_->turns.now()) lines_->of.erase(found);
    if (lines_->ready.empty())
      lines_.reset();
    else if (lines_->of.size() > 2 * lines_->ready.size() + kKept)
      std::erase_if(lines_->of, [](const auto& one) { return one.second.waiting.empty(); });
  }
  /// Each one, in no order that counts; f may not change the round.
  template <class F>
  void for_each(F&& f) const {
    plain_.for_each(f);
    if (!lines_) return;
    for (const auto& [number, line] : lines_->of) line.waiting.for_each(f);
  }
  /// The first will be looked at soon.
  void prefetch_front() const {
    if (!lines_) plain_.prefetch_front();
  }

 private:
  static constexpr std::size_t kKept = 64;  // tenants that have had more and do not wait
  struct Line {
    Tenant* tenant = nullptr;  // while something waits
    UrgencyRound<T> waiting;
    std::uint64_t had = 0;
  };
  struct Turn {
    std::uint64_t had;
    std::uint32_t tenant;
    Line* line;
    bool operator<(const Turn& other) const { return std::pair(had, tenant) < std::pair(other.had, other.tenant); }
  };
  struct Lines {
    std::map<std::uint32_t, Line> of;
    std::set<Turn> ready;
    TenantTurns turns;
  };
  void put(Node<T>& node, bool at_front) {
    Tenant* const tenant = node.self->owner();
    if (tenant == nullptr) return at_front ? plain_.push_front(node) : plain_.push_back(node);
    if (!lines_) lines_ = std::make_unique<Lines>();
    Line& line = lines_->of[tenant->number];
    if (line.waiting.empty()) {
      line.tenant = tenant;
      line.had = lines_->turns.begin(line.had);
      lines_->ready.insert({line.had, tenant->number, &line});
    }
    if (at_front)
      line.waiting.push_front(node);
    else
      line.waiting.push_back(node);
  }

  UrgencyRound<T> plain_;
  std::unique_ptr<Lines> lines_;  // while tenants wait
};

}  // namespace pen::qmgr::scheduler
