#pragma once
/// A party takes turns with others, and its workers are counted: a message, or all messages of one source. Here is also
/// what a party waits with and what it has on connections.
///
/// Owned:    a party by its message or by its source; PoolShare, ConnectionShare and Claim by the party.
/// Changed:  concurrency and carried by connections.cc, pooled and claims by pool.h, routing and unrouted by
///           routing.cc; sources.h decides which messages share a party.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "qmgr/scheduler/first_inline.h"
#include "qmgr/scheduler/list.h"
#include "qmgr/scheduler/scheduler.h"
#include "qmgr/scheduler/tenant_queue.h"

namespace pen::qmgr::scheduler {

struct Party;
struct Message;
struct Transport;
struct Cluster;
struct Connection;
struct Claim;
struct Job;

/// What jobs without a connection wait for.
enum class Waits : std::uint8_t {
  worker,  // any that is free
  probe,   // a worker for a host of which it is not known that it works (probes.h)
  limits   // a connection of their destinations, which are at their limits
};

/// The jobs of one party that wait in one cluster for a connection.
struct PoolShare {
  PoolShare(Cluster* c, Party* p) : cluster(c), party(p) {}
  Tenant* owner() const;
  UrgencyTurn turn() const;
  Cluster* cluster;
  Party* party;
  Claim* claim = nullptr;  // of the party, to workers of the cluster's transport; none if it waits for limits
  List<Job> jobs;
  std::uint32_t count = 0;
  Waits waits = Waits::worker;
  SteadyTime since{};
  Node<PoolShare> round{this};    // in Cluster::round: free rides go round the messages
  Node<PoolShare> waiting{this};  // in Claim::shares, or in Cluster::full
};

/// One party's wait for workers of one transport, or for those of its probes.
struct Claim {
  Claim(Party* o, Transport* t, bool p) : party(o), transport(t), probe(p) {}
  Party* party;
  Transport* transport;
  WorkerQueue<Claim>::Entry entry{this};
  List<PoolShare> shares;
  bool probe;
  Tenant* owner() const;
  UrgencyTurn turn() const;
  TenantQueue<Claim>& queue() const;
};

/// One party's jobs on one connection.
struct ConnectionShare {
  explicit ConnectionShare(Party* p) : party(p) {}
  UrgencyTurn turn() const;
  Party* party;
  std::size_t jobs = 0;  // waiting and handed
  List<Job> waiting;
  Node<ConnectionShare> round{this};
};

/// The unit that takes turns and for which workers are counted: a message, or all messages of one source (sources.h).
struct Party {
  std::uint64_t seq = 0;      // of its first wait for a connection: answers overtake each other; 0: it has not waited
  std::uint32_t routing = 0;  // look-ups under way
  std::uint32_t concurrency = 0;        // connections that hold jobs of it
  std::uint32_t most_workers = kNoCap;  // of one transport
  bool shared = false;
  Tenant* tenant = nullptr;  // of all its messages; nullptr: there are no tenants
  Tenant* owner() const { return tenant; }
  UrgencyTurn turns;  // of all its messages
  UrgencyTurn turn() const { return turns; }
  /// As allowed_new_worker() counts them: no party has more workers than its tenant may have.
  std::uint64_t held() const {
    return tenant == nullptr ? concurrency : std::max<std::uint64_t>(concurrency, tenant->weighed(tenant->concurrency));
  }
  List<Message> unrouted;  // those with recipients that want a route, in turn
  WorkerQueue<Party>::Entry routing_entry{this};
  FirstInline<Cluster, PoolShare> pooled;
  FirstInline<Connection, ConnectionShare> carried;
  std::optional<Claim> claim;  // of the first transport that it waited for
  using Claims = std::vector<std::unique_ptr<Claim>>;
  std::unique_ptr<Claims> more_claims;  // of others, in order; nullptr: none
  template <class F>
  void each_claim(F&& f) {
    if (claim) f(*claim);
    if (more_claims)
      for (auto& c : *more_claims) f(*c);
  }
};

inline Tenant* PoolShare::owner() const { return party->tenant; }
inline UrgencyTurn PoolShare::turn() const { return party->turns; }
inline UrgencyTurn Claim::turn() const { return party->turns; }
inline UrgencyTurn ConnectionShare::turn() const { return party->turns; }
inline Tenant* Claim::owner() const { return party->tenant; }

/// Where messages come from: a sender, or what asks for verification.
struct Source {
  std::uint64_t number = 0;
  std::uint64_t slot = 0;  // in Sources
  Tenant* tenant = nullptr;
  Urgency urgency = Urgency::normal;
  std::size_t messages = 0;
  bool pseudo_message = false;   // all its messages are one party, from the first on
  std::unique_ptr<Party> party;  // of those that are not parties of their own
};

}  // namespace pen::qmgr::scheduler
