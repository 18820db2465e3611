#pragma once
/// Gates: what a job has to pass before it looks for a connection, so that mail stays within what receivers accept.
///
/// A gate holds for what it was made for: a provider or the hosts of a route, for one source address or one sender's
/// domain where a complaint named that, or what the administrator has limited. A job passes all of its gates at once,
/// and takes a token of each when it is handed out. Those that wait at one take turns by tenant, and those of a tenant
/// by how urgent they are and by party, as for workers.
///
/// Owned:    by Group, Flow or Shaping.
/// Changed:  by shaping.h; the line by gates.cc.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/time.h"
#include "lib/queue/shaping/quota.h"
#include "qmgr/scheduler/list.h"
#include "qmgr/scheduler/shaping_options.h"
#include "qmgr/scheduler/tenant_round.h"

namespace pen::qmgr::scheduler {

struct Party;
struct Job;
struct Destination;
struct Gate;

/// How many there were in the last minute, to a sixth of it.
class Minute {
 public:
  void add(SteadyTime now) {
    turn_to(now);
    ++slots_[static_cast<std::size_t>(slot_ % kSlots)];
  }
  std::uint64_t count(SteadyTime now) {
    turn_to(now);
    std::uint64_t sum = 0;
    for (const auto n : slots_) sum += n;
    return sum;
  }

 private:
  static constexpr std::int64_t kSlots = 6;
  void turn_to(SteadyTime now) {
    const std::int64_t slot = now.time_since_epoch() / seconds(60 / kSlots);
    if (slot - slot_ >= kSlots) slots_.fill(0), slot_ = slot;
    while (slot_ < slot) slots_[static_cast<std::size_t>(++slot_ % kSlots)] = 0;
  }
  std::array<std::uint32_t, kSlots> slots_{};
  std::int64_t slot_ = 0;
};

/// When messages that were put off come back. A message can wait for a few times only, each twice the one before (the
/// retry logs of the queue), so more than one time's need is asked back for each: else some times would have no
/// messages.
class Returns {
 public:
  static constexpr std::uint64_t kTimesNeeded = 3;
  /// How long one more message waits: step, or twice that and so on, most at most. Not before: as nearly as possible.
  /// needed(wait): how many messages pass within a step by then.
  template <class Needed>
  seconds add(SteadyTime now, SteadyTime not_before, seconds step, seconds most, Needed&& needed) {
    step = std::max(step, seconds(1));
    const auto window = [&](SteadyTime at) { return at.time_since_epoch() / step; };
    by_window_.erase(by_window_.begin(), by_window_.lower_bound(window(now)));
    for (seconds wait = step;; wait = std::min(wait * 2, most)) {
      std::uint64_t& there = by_window_[window(now + wait)];
      if (wait < most && (now + wait < not_before || there >= needed(wait) * kTimesNeeded)) continue;
      ++there;
      return wait;
    }
  }
  /// None of them is still to come.
  bool over(SteadyTime now, seconds step) const {
    return by_window_.empty() || by_window_.rbegin()->first < now.time_since_epoch() / std::max(step, seconds(1));
  }

 private:
  std::map<std::int64_t, std::uint64_t> by_window_;  // as many as there are steps in most, at most
};

/// One party's jobs before a gate.
struct GateShare {
  GateShare(Gate* g, Party* p) : gate(g), party(p) {}
  Gate* gate;
  Party* party;
  List<Job> jobs;
  std::size_t count = 0;
  Node<GateShare> round{this};
  Tenant* owner() const;
  UrgencyTurn turn() const;
};

/// What a tenant has before a gate.
struct TenantAtGate {
  std::size_t jobs = 0, parties = 0;
  std::array<std::size_t, kUrgencies> by_urgency{};  // the jobs
  std::uint32_t weight = 0;                          // as it was when it came
};

/// A slower rate of a gate.
struct GateQuota {
  shaping::Quota whole;  // as it was set; in a cluster the window has this host's part
  shaping::QuotaWindow window;
  bool recalled = false;  // what was kept of it counts
};

struct Gate {
  std::string group, source, domain, name;  // as in LimitState
  shaping::Learned learned;
  ShapingOptions::Limit set;      // by the administrator
  bool holds_deliveries = false;  // its connections are counted as deliveries under way, not as connections
  shaping::Bucket bucket;
  std::vector<GateQuota> quotas;    // that are set or ordered; most gates have none
  std::uint32_t divided_among = 1;  // hosts
  enum class Spent : std::uint8_t { settled, unsettled, unwritten } spent = Spent::settled;  // what spent.h wrote
  Minute delivered;
  bool took = true;              // a delivery since the last complaint
  std::uint64_t since_rise = 0;  // handed out
  SteadyTime rose{};
  SteadyTime held_until{};                              // of learned.held_until
  std::map<std::string, Returns, std::less<>> returns;  // of those that were put off because of the line, by tenant
  std::uint64_t passed = 0;                             // jobs that have passed and were not handed out
  std::uint64_t under_way = 0;                          // handed out, and not done
  std::size_t waiting = 0;
  std::array<std::size_t, kUrgencies> by_urgency{};  // of those that wait
  TenantRound<GateShare> round;
  std::unordered_map<Party*, std::unique_ptr<GateShare>> shares;
  std::unordered_map<const Tenant*, TenantAtGate> tenants;  // of the shares; empty where there are no tenants
  std::uint64_t weights = 0;                                // of these tenants
  SteadyTime wakes = kNever;                                // among those that Shaping looks at then
  bool dirty = false;                                       // among those that may let a job through now
  std::string shared_key;  // in a cluster: the name that its hosts know it by; empty: the gate is this host's own
  SteadyTime listened{};   // when it was last asked what the others learned of it

  bool limits() const { return bucket.rate().limits() || held_until != SteadyTime{} || deliveries() > 0; }
  /// Of all hosts of a cluster together.
  std::uint32_t deliveries() const { return holds_deliveries ? set.connections : 0; }
};

/// A provider, or the hosts of a route that belong to none.
struct Group {
  std::string name;
  const shaping::Provider* provider = nullptr;
  std::size_t references = 0;  // clusters
  Gate all;                    // for all sources that mail leaves from
  std::vector<std::unique_ptr<Gate>> sources;
  std::vector<std::unique_ptr<Gate>> transports;  // <transport>_destination_rate_limit
  SteadyTime judged{};                            // when its limits were asked for
  std::uint32_t holding = 0;                      // connections to hosts of the provider
  SteadyTime left{};                              // when one of them was last closed by us
  SteadyTime excused{};                           // when a complaint was taken for one about such a connection
  List<Destination> hosts;                        // of the provider
};

/// Mail of one domain to one provider: what it sends, and what it signs, which a reply may complain of apart.
struct Flow {
  struct Side {
    Minute delivered;
    std::unique_ptr<Gate> gate;  // nullptr: there was no complaint of it
  };
  Group* group = nullptr;
  Side sends, signs;
};

/// A domain that mail is from or that signs it, as far as receivers tell senders apart.
struct Sender {
  std::string domain;
  std::size_t messages = 0;
  SteadyTime idle_since{};
  std::vector<std::unique_ptr<Flow>> flows;
};

}  // namespace pen::qmgr::scheduler
