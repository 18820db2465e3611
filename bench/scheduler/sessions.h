#pragma once
/// Session classes in the simulation: anvil's own ledger, between the scheduler's connections and simulated clients.
///
/// The ledger is anvil::Ledger without the programs around it: its messages arrive at once. The scheduler's
/// connections are one holder, all clients another. A refused client does not come again.
///
/// Use:     take() for a connection that needs a lease, release() when it has ended; happened() for the events
///          leases, call and hang_up. Decisions reach the Listener always within happened().
/// Thread:  one. Events and Listener outlive it.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "anvil/ledger.h"
#include "bench/scheduler/discipline.h"
#include "bench/scheduler/events.h"
#include "lib/base/random.h"

namespace pen::simulation {

/// Clients of one kind, at random times.
struct Callers {
  std::string host;  // their verified name
  std::string address;
  double rate = 1;  // of calls a second
  seconds stay{1};
  seconds until{0};  // then no more come
};

class Sessions {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void lease_answered(ConnectionNumber connection, bool granted) = 0;
    virtual void room(std::uint32_t session_class) = 0;
    virtual bool yield(std::uint32_t session_class) = 0;
  };
  /// The record of a class.
  struct Seen {
    std::uint64_t most = 0, most_outgoing = 0;  // sessions at once
    std::uint64_t calls_taken = 0, calls_refused = 0;
    double full = 0;  // s at the total limit
  };

  Sessions(std::shared_ptr<const sessions::Classes> classes, std::vector<Callers> callers, std::uint64_t seed,
           Events& events, Listener& listener);

  void take(SteadyTime now, ConnectionNumber connection, const std::string& host, const std::string& address);
  /// Also for a connection that neither holds nor requests a lease.
  void release(SteadyTime now, ConnectionNumber connection);
  void happened(SteadyTime now, const Event& event);
  /// Of each class, in their order.
  const std::vector<Seen>& seen() const { return seen_; }

 private:
  void call(SteadyTime now, std::size_t kind);
  void next_call(SteadyTime now, std::size_t kind);
  void carry_out(SteadyTime now);
  void pump_at(SteadyTime at);
  void note(SteadyTime now);
  std::uint32_t number_of(const std::string& mask) const;

  std::shared_ptr<const sessions::Classes> classes_;
  std::vector<Callers> callers_;
  Random random_;
  Events& events_;
  Listener& listener_;
  anvil::Ledger ledger_;
  anvil::Ledger::Holder qmgr_ = 0, clients_ = 0;
  std::set<ConnectionNumber> asked_, held_;
  std::vector<std::size_t> kind_of_;  // of each call, by the number of its lease less one
  std::vector<Seen> seen_;
  std::vector<bool> full_;
  SteadyTime noted_{};
};

}  // namespace pen::simulation
