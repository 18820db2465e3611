#pragma once
/// Delivery processes of schedulers that do not share connections between waiting deliveries: each makes one delivery
/// at a time, from the look-up to the last reply.
///
/// A worker finds the hosts and takes an idle connection to one of them from a cache that all workers share.
/// Otherwise it tries up to five addresses by preference, in random order within a level. It leaves its connection in
/// the cache for Limits::idle_age. The cache costs no worker, which favours the schedulers that use it.
///
/// Use:     start() while free() > 0; finished() tells the Owner that the worker is free again.
#include <deque>
#include <unordered_map>
#include <vector>

#include "bench/scheduler/discipline.h"

namespace pen::simulation {

/// Recipients of one message at one domain.
struct Task {
  MessageNumber message = 0;
  DomainNumber domain = 0;
  Ordinals ordinals;
};

class Workers {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    /// unreachable: no host took the task; its recipients have been deferred.
    virtual void finished(const Task& task, bool unreachable) = 0;
  };
  Workers(World& world, const Limits& limits, std::uint64_t seed, Owner& owner)
      : world_(world), limits_(limits), random_(seed), owner_(owner) {}

  std::uint32_t free() const { return limits_.workers - busy_; }
  std::uint32_t busy() const { return busy_; }
  void start(Task&& task);

  // From the Discipline.
  void looked_up(MessageNumber message, std::uint32_t ordinal);
  void opened(ConnectionNumber connection);
  void closed(ConnectionNumber connection, bool was_opened);
  void done(ConnectionNumber connection);
  void tick();
  SteadyTime next_wake() const;

 private:
  struct Worker {
    Task task;
    std::vector<HostNumber> candidates;  // the next one last
    bool chosen = false;                 // candidates were found
  };
  struct Idle {
    ConnectionNumber connection = 0;
    SteadyTime since{};
  };
  void proceed(std::unique_ptr<Worker> worker);
  void hand(ConnectionNumber connection, std::unique_ptr<Worker> worker);
  ConnectionNumber from_cache(const Cluster& cluster, HostNumber& host);

  World& world_;
  Limits limits_;
  Random random_;
  Owner& owner_;
  std::uint32_t busy_ = 0;
  std::uint64_t next_connection_ = 1;
  std::unordered_map<std::uint64_t, std::unique_ptr<Worker>> looking_;  // by message and ordinal
  struct Used {
    HostNumber host = 0;
    std::unique_ptr<Worker> worker;  // none: idle, in the cache
  };
  std::unordered_map<ConnectionNumber, Used> connections_;
  std::unordered_map<HostNumber, std::vector<ConnectionNumber>> cache_;
  std::deque<Idle> idle_;  // oldest first; some have been taken since
  std::unordered_map<ConnectionNumber, SteadyTime> idle_since_;
};

/// A scheduler with such processes: passes the world's events to the workers, then pump() gives work to the free ones.
class WithWorkers : public Discipline, protected Workers::Owner {
 public:
  void looked_up(MessageNumber m, std::uint32_t ordinal) override {
    workers_.looked_up(m, ordinal);
    pump();
  }
  void opened(ConnectionNumber c, const Host&) override { workers_.opened(c); }
  void closed(ConnectionNumber c, bool was_opened, ipc::delivery::Trouble, const std::vector<JobNumber>&) override {
    workers_.closed(c, was_opened);
    pump();
  }
  void done(ConnectionNumber c, JobNumber, microseconds) override {
    workers_.done(c);
    pump();
  }
  void tick() override { workers_.tick(); }
  SteadyTime next_wake() const override { return workers_.next_wake(); }
  std::uint32_t workers_held() const override { return workers_.busy(); }

 protected:
  WithWorkers(World& world, const Limits& limits, std::uint64_t seed)
      : world_(world), limits_(limits), workers_(world, limits, seed, *this) {}
  virtual void pump() = 0;

  World& world_;
  Limits limits_;
  Workers workers_;
};

/// The tasks of a message: its recipients of one domain together, up to the limit; in the order of first appearance.
std::vector<Task> tasks_of(const World& world, MessageNumber message, const Ordinals& recipients, std::uint32_t most);

}  // namespace pen::simulation
