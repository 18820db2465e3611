#pragma once
/// A tenant: the owner of mail from many senders (docs/tenants.md). Tenants take turns with one another wherever
/// parties do, each by its weight, and the rule that keeps one message from taking all workers holds for one tenant
/// as well.
///
/// Owned:    by Tenants, while a message of it is here; its lines by itself.
/// Changed:  messages by tenants.h; routing by routing.cc; concurrency by connections.cc; lines by tenant_queue.h.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/time.h"

namespace pen::qmgr::scheduler {

inline constexpr std::uint32_t kUsualWeight = 100, kLeastWeight = 1, kMostWeight = 1000;

struct Gate;

/// The waiting elements of one tenant in one line of turns.
struct TenantLine {
  explicit TenantLine(const void* q) : queue(q) {}
  virtual ~TenantLine() = default;
  TenantLine(const TenantLine&) = delete;
  TenantLine& operator=(const TenantLine&) = delete;
  /// The tenant holds less, or may hold more. Returns true if it stood aside: it is to be looked at.
  virtual bool may_have_more() = 0;
  const void* const queue;  // the queue that it is a part of
};

struct Tenant {
  Tenant(std::string n, std::uint32_t id) : name(std::move(n)), number(id) {}
  const std::string name;  // "": for all mail without a tenant
  const std::uint32_t number;
  std::uint32_t weight = kUsualWeight;
  std::size_t messages = 0;                        // here
  std::uint32_t routing = 0;                       // look-ups under way
  std::uint32_t concurrency = 0;                   // connections that hold jobs of it
  Gate* limit = nullptr;                           // tenant:NAME of delivery_limit_maps (shaping.h)
  SteadyTime judged{};                             // when that was asked for
  std::vector<std::unique_ptr<TenantLine>> lines;  // one of routing, and a few for each transport

  /// The number of workers as allowed_new_worker() counts them: those of a heavy tenant count less.
  std::uint64_t weighed(std::uint64_t workers) const { return workers * kUsualWeight / weight; }
  /// The number of recipients in turns: all tenants have had equally much when these numbers are equal.
  std::uint64_t turn_of(std::size_t recipients) const {
    constexpr std::uint64_t kUnit = std::uint64_t{kUsualWeight} * kMostWeight;
    return std::max<std::uint64_t>(recipients, 1) * kUnit / weight;
  }
  /// Calls moved(queue) for each queue in which it stood aside.
  template <class F>
  void may_have_more(F&& moved) {
    for (const auto& line : lines)
      if (line->may_have_more()) moved(line->queue);
  }
};

/// Which tenant has the turn: the one that has had least of late, in recipients by weight.
///
/// This is deficit round robin without its rounds: a tenant that has had more than its turn waits until the others have
/// had as much, however many recipients that was, and no rounds are counted for that. A tenant that comes, or comes
/// back, begins with what the one served last has had: a tenant without mail saves no turns up.
class TenantTurns {
 public:
  /// What a line has had when it begins to wait.
  std::uint64_t begin(std::uint64_t had) const { return std::max(had, now_); }
  void serves(std::uint64_t had) { now_ = std::max(now_, had); }
  std::uint64_t now() const { return now_; }

 private:
  std::uint64_t now_ = 0;
};

}  // namespace pen::qmgr::scheduler
