#pragma once
/// Routes: transports, route sets, clusters and destinations, each found by the fields that make two of them equal.
///
/// A route set that no job has is kept for re-use, kept_routes of them; a cluster goes with its last route set, a
/// destination with its last cluster and connection.
///
/// Use:     find(answer) gives the route set of a look-up's answer; reference() and release() by each job.
/// Source:  docs/scheduler.md, "Words".
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "qmgr/scheduler/host_order.h"
#include "qmgr/scheduler/number_table.h"
#include "qmgr/scheduler/rate_delay.h"
#include "qmgr/scheduler/session_classes.h"
#include "qmgr/scheduler/shaping.h"
#include "qmgr/scheduler/slab.h"
#include "qmgr/scheduler/suspension.h"

namespace pen::qmgr::scheduler {

class Routes {
 public:
  /// The parts that note something of a route set or destination when it is met.
  struct Notes {
    const Suspensions& suspensions;
    SessionClasses& session_classes;
    HostOrder& host_order;
    RateDelay& rate_delay;
    Shaping& shaping;
  };
  using LimitsOf = std::function<TransportLimits(std::string_view)>;
  Routes(const Options& options, LimitsOf limits, destdb::Table& table, std::uint64_t key, Notes notes)
      : options_(options), limits_(std::move(limits)), table_(table), notes_(notes), key_(key) {}

  RouteSet& find(const ipc::route::Resolved& answer);
  void reference(RouteSet& r) { ++r.references; }
  void release(RouteSet& r);
  /// The same, but no other is dropped for it: the caller goes on with this one.
  void put_back(RouteSet& r);
  /// The route with those hosts last that took nothing lately; itself if there are none.
  RouteSet& in_order(RouteSet& r);
  /// The route without this host. One must be left.
  RouteSet& without(RouteSet& r, Destination& host);

  Transport& transport(std::string_view name);
  const auto& transports() const { return transports_; }
  /// nullptr: there is none.
  Destination* destination(std::string_view key) const;
  const auto& destinations() const { return destinations_; }
  /// Forgets a destination that nothing refers to; one that pauses later.
  void drop_if_unused(Destination& d);
  template <class F>
  void each_route(F&& f) {
    routes_.for_each(f);
  }

 private:
  enum class Change : std::uint8_t { without = 1, last };
  struct Fingerprints {
    Fingerprint route, cluster;
  };
  Fingerprints fingerprints(const ipc::route::Resolved& answer, const Transport& t);
  Cluster& cluster(const ipc::route::Resolved& answer, const Fingerprint& f, Transport& t);
  /// One without hosts, by a number that find_by() gave.
  Cluster& make_cluster(const Fingerprint& f, std::uint64_t number, Transport& t);
  Destination& make_destination(const ipc::Destination& address, const std::string& key, Transport& t);
  /// The route set without these hosts, or with them on a level behind all others. One must be left.
  RouteSet& changed(RouteSet& r, std::span<Destination* const> hosts, Change change);
  Cluster& changed(const Cluster& from, std::span<Destination* const> hosts, Change change, const Fingerprint& f);
  void drop(RouteSet& r);

  const Options& options_;
  const LimitsOf limits_;
  destdb::Table& table_;
  const Notes notes_;
  const std::uint64_t key_;  // of fingerprints: known here alone
  std::unordered_map<std::string, std::unique_ptr<Transport>> transports_;
  std::unordered_map<std::string, std::unique_ptr<Destination>> destinations_;
  // By number, because their names would be long: all the names of their destinations.
  Slab<Cluster> clusters_;
  NumberTable<Cluster> cluster_numbers_;  // by Cluster::number
  Slab<RouteSet> routes_;
  NumberTable<RouteSet> route_numbers_;  // by RouteSet::number
  std::deque<RouteSet*> spare_;          // without a job, longest first
  std::string scratch_;
};

}  // namespace pen::qmgr::scheduler
