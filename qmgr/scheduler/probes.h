#pragma once
/// Probes: connections on the way to destinations of which nothing says that they work. What a dead host costs others.
///
/// A host that does not answer holds a worker until the connection attempt times out (30 s), and it is not known
/// beforehand which hosts those are. With more of them than workers, all workers would soon wait for dead hosts, and
/// mail for hosts that are known to work would wait behind them. So:
/// - while others want workers, probes hold an eighth of them at most (more while half of the workers are free), and
///   this eighth is kept for them: hosts that were not tried yet are not starved by those that work;
/// - what waits for a probe stands in a line of its own, where allowed_new_worker() counts free probes instead of free
///   workers: a big envelope to unknown hosts leaves probes for others;
/// - when others want its worker, or the parties with mail on it wait because they have their share of the workers, a
///   probe that had no answer for longer than our patience ends like a timeout. Hosts that work answer in well under
///   a second or two; 4 s are time for two more tries of TCP (after 1 s and 3 s). The patience doubles with each
///   failure: a host that is slow to greet is not given up early for ever;
/// - messages that wait for probes are parked beyond their share of the active set (share.h).
/// A connection to a host that worked last time is no probe, nor is what has no address (local delivery).
///
/// Owns:    nothing; the probes under way are Transport::probes.
#include <vector>

#include "qmgr/scheduler/clock.h"
#include "qmgr/scheduler/connection.h"

namespace pen::qmgr::scheduler {

class Probes {
 public:
  Probes(const Clock& clock, TransportsToServe& to_serve) : clock_(clock), to_serve_(to_serve) {}
  /// Nothing says that the destination works: it never accepted a connection, or has failed since.
  static bool unproven(const Destination& d) {
    if (d.address.address.empty()) return false;
    return d.facts.failures > 0 || d.facts.last_connect == WallTime{};
  }
  /// How many more may begin now.
  static std::uint32_t free(const Transport& t);
  /// A connection to an unproven destination is made.
  void begin(Connection& c) const;
  /// The connection was opened, or has gone. Nothing to do for others.
  void end(Connection& c) const;
  /// The probes that are to be given up now: they have had no answer for longer than our patience, and others want
  /// their workers. moves: jobs of the transport may move. Sets when to look next.
  std::vector<Connection*> overdue(Transport& t, bool moves) const;
  /// The status of a probe that is given up.
  mail::DeliveryStatus given_up(const Connection& c) const;

 private:
  const Clock& clock_;
  TransportsToServe& to_serve_;
};

}  // namespace pen::qmgr::scheduler
