#pragma once
/// Where jobs go: a route set is a next hop and the cluster that it leads to; a cluster is a transport and preference
/// levels of destinations. Jobs of one cluster share connections and a pool, whatever their next hops.
///
/// Owned:    by Routes, for as long as a job has the route set, and kept_routes of them for longer.
/// Changed:  made by routes.h; the pool's fields (round, full, pooled, awake) by pool.h; crowded by share.h; suspended
///           by suspension.h.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/time.h"
#include "qmgr/scheduler/list.h"
#include "qmgr/scheduler/number_table.h"
#include "qmgr/scheduler/party.h"
#include "qmgr/scheduler/tenant_round.h"
#include "qmgr/scheduler/transport.h"

namespace pen::qmgr::scheduler {

struct Destination;
struct Cluster;
struct Group;
struct Gate;

/// The fingerprint of a look-up's answer, whatever the order within its levels; with a key that is known here alone.
struct Fingerprint {
  std::uint64_t low = 0, high = 0;
  bool operator==(const Fingerprint&) const = default;
};

/// Finds the object with this fingerprint by its low half or, if others have that too, by one of the numbers that
/// follow. number: in: anything; out: the number that it is found by, or a free one.
template <class T>
T* find_by(const NumberTable<T>& table, const Fingerprint& f, std::uint64_t& number) {
  number = f.low;
  T* known = table.find(number);
  while (known != nullptr && known->fingerprint != f) known = table.find(++number);
  return known;
}

struct Member {
  Member(Cluster* c, Destination* d, std::size_t l) : cluster(c), destination(d), level(l) {}
  Cluster* cluster;
  Destination* destination;
  std::size_t level;
  Node<Member> hungry{this};   // in Destination::hungry while jobs are pooled in the cluster
  Node<Member> starved{this};  // in Destination::starved while some of them wait for limits
};

struct Cluster {
  Fingerprint fingerprint;
  std::uint64_t number = 0;  // the fingerprint's low half, or the next one that was free
  std::uint64_t slot = 0;    // in Routes
  Transport* transport = nullptr;
  Group* group = nullptr;  // its provider (shaping.h); nullptr: nothing is shaped
  Gate* gate = nullptr;    // of the transport's destination_rate_limit
  std::vector<std::vector<std::unique_ptr<Member>>> levels;
  /// More than one destination.
  bool has_several() const { return levels.size() > 1 || levels.front().size() > 1; }
  /// What waits in the pool and behind it, by the connections of the level.
  std::size_t part_of_pool(std::size_t level, std::size_t behind = 0) const;
  TenantRound<PoolShare> round;  // one of each party that waits here
  std::size_t share_count = 0;   // messages that wait here; of shared parties, jobs
  List<PoolShare> full;          // those that wait for limits
  std::size_t awake = 0;         // those that wait for a worker
  Node<Cluster> left{this};      // in Pool: one that was awake went; others may have what it did not take
  std::size_t pooled = 0;
  SteadyTime look_at = kNever;  // when one of `full` looks again, whatever happens; in Pool until then
  std::size_t others_can = 0;   // jobs that were left to connections that can do so many; 0: none were
  std::size_t references = 0;
  Node<Cluster> crowded{this};  // in Shares while more than share_limit messages wait here
};

struct RouteSet {
  Fingerprint fingerprint;
  std::uint64_t number = 0;  // the fingerprint's low half, or the next one that was free
  std::uint64_t slot = 0;    // in Routes
  Cluster* cluster = nullptr;
  std::string nexthop;
  std::size_t references = 0;  // jobs
  bool parked = false;         // kept by Routes without a job
  std::string suspended;       // why nothing goes to this next hop; empty: it may
  SteadyTime judged{};         // when that was found
  Gate* gate = nullptr;        // of the limit of its domain
  SteadyTime limits_judged{};  // when that was asked for
};

}  // namespace pen::qmgr::scheduler
