#pragma once
/// Back-off: a destination that has failed is left alone for a time that doubles with each failure. One outage counts
/// once, however many connections met it. docs/scheduler.md has the table of what weighs how much.
///
/// Use:     dead(d) before anything is given to a destination; failed(d, …) when a connection to it came to nothing.
///          The caller keeps what has changed (Memory::keep).
#include <cstdint>
#include <optional>

#include "lib/base/random.h"
#include "qmgr/scheduler/ceilings.h"
#include "qmgr/scheduler/clock.h"
#include "qmgr/scheduler/destination.h"

namespace pen::qmgr::scheduler {

class BackOff {
 public:
  BackOff(const Options& options, const Clock& clock, Random& random, const Ceilings& ceilings)
      : options_(options), clock_(clock), random_(random), ceilings_(ceilings) {}
  /// Nothing goes there: it is suspended, or failed and its time has not come.
  bool dead(const Destination& d) const {
    if (!d.suspended.empty()) return true;
    return d.facts.failures > 0 && d.connections.empty() && waits(d);
  }
  /// The first level of the cluster with a destination that works; the number of levels: there is none.
  std::size_t usable_level(const Cluster& c) const;
  /// A connection failed, or could not be opened. While others to the destination work, that is a ceiling.
  void failed(Destination& d, ipc::delivery::Trouble trouble, const mail::DeliveryStatus& status);
  /// A flush: destinations that failed before this may be tried at once.
  void forgive() { forgiven_ = clock_.wall; }
  /// Whether the failure of the destination was noted before that flush.
  bool forgiven(const Destination& d) const { return d.facts.used < forgiven_; }

 private:
  bool waits(const Destination& d) const { return d.facts.next_retry > clock_.wall && !forgiven(d); }
  /// How long a destination is left alone after this failure, with so many in a row before it.
  microseconds time(std::uint32_t failures, ipc::delivery::Trouble trouble, std::optional<seconds> stated);
  const Options& options_;
  const Clock& clock_;
  Random& random_;
  const Ceilings& ceilings_;
  WallTime forgiven_{};
};

}  // namespace pen::qmgr::scheduler
