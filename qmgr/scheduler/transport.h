#pragma once
/// A transport: its limits, its connections by their states, and the parties that wait for its workers.
///
/// Owned:    by Routes, for good.
/// Changed:  lists of connections by connections.cc; waiting by pool.h; probes by probes.h; alone and solo, the jobs
///           that run with no other in hand, by alone.cc.
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "lib/base/time.h"
#include "qmgr/scheduler/list.h"
#include "qmgr/scheduler/party.h"
#include "qmgr/scheduler/scheduler.h"
#include "qmgr/scheduler/tenant_queue.h"

namespace pen::qmgr::scheduler {

struct Transport {
  std::string name;
  TransportLimits limits;
  bool up = true;
  std::uint32_t connections = 0;  // open, opening and closing ones
  std::uint32_t in_hand = 0;      // jobs handed out
  List<Connection> idle;          // longest idle first
  std::size_t idle_count = 0;
  List<Connection> by_age;  // oldest first
  List<Connection> waits;   // those on which jobs wait behind others, by waits_since
  List<Connection> all;
  TenantQueue<Claim> waiting{&Tenant::concurrency};
  TenantQueue<Claim> probe_waiting{&Tenant::concurrency};
  List<Connection> probes;  // being opened to hosts that are not known to work, oldest first
  bool yielding = false;    // a connection closes so that something urgent gets its worker
  std::uint32_t probing = 0;
  std::size_t wanted_probes = 0;       // PoolShares that wait for one
  SteadyTime look_at_probes = kNever;  // when one of them may have to be given up
  std::deque<Job*> alone;              // jobs that must run with no other in hand
  Job* solo = nullptr;                 // the one of them that has the turn
  SteadyTime paused_until{};           // transport_rate_delay: no delivery begins before
  bool dirty = false;                  // it is among the TransportsToServe
  SteadyTime solo_until = kNever;      // if it has no connection by then it is deferred
  bool resumes = false;                // nothing runs alone any more: connections wait to be given jobs
  /// Whether a job runs alone, or waits for those in hand to end: no other job moves then.
  bool exclusive() const { return solo != nullptr || !alone.empty(); }
  /// Workers that a job could get: idle ones count, they can be closed.
  std::uint32_t free() const {
    if (limits.workers == 0) return 1'000'000;
    const auto busy = connections - static_cast<std::uint32_t>(idle_count);
    return busy >= limits.workers ? 0 : limits.workers - busy;
  }
};

inline TenantQueue<Claim>& Claim::queue() const { return probe ? transport->probe_waiting : transport->waiting; }

/// Transports with workers that may have become free: jobs that wait for one are to be served.
class TransportsToServe {
 public:
  void mark(Transport& t) {
    if (t.dirty) return;
    t.dirty = true;
    list_.push_back(&t);
  }
  bool empty() const { return list_.empty(); }
  /// There must be one.
  Transport& take() {
    Transport& t = *list_.back();
    list_.pop_back();
    t.dirty = false;
    return t;
  }

 private:
  std::vector<Transport*> list_;
};

}  // namespace pen::qmgr::scheduler
