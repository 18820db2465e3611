#pragma once
/// Hosts that are asked after the others of their route, because they took nothing lately, and hosts that take
/// recipients of one domain in a transaction. Both are facts of a destination; here is until when any destination may
/// have them, so that facts are seldom looked at.
///
/// Use:     took_nothing() or took_something() with a result; asked_last() when a job is formed (Routes::in_order).
#include "qmgr/scheduler/back_off.h"
#include "qmgr/scheduler/clock.h"
#include "qmgr/scheduler/memory.h"

namespace pen::qmgr::scheduler {

class HostOrder {
 public:
  HostOrder(const Options& options, const Clock& clock, const BackOff& back_off, const Memory& memory)
      : options_(options), clock_(clock), back_off_(back_off), memory_(memory) {}
  /// The destination took nothing of a transaction.
  void took_nothing(Destination& d);
  /// It did not end one with this message.
  void broke_off(Destination& d, std::uint64_t message);
  /// It ended one.
  static void went_on(Destination& d) { d.broken_off = 0; }
  void took_something(Destination& d) const;
  /// The destination has broken off at several messages in a row, and none of its connections works.
  static bool breaks_again(const Destination& d);
  bool asked_last(const Destination& d) const {
    return d.facts.asked_last_until > clock_.wall && !back_off_.forgiven(d);
  }
  /// Whether some destination may be asked last.
  bool any_last() const { return clock_.wall < takes_nothing_until_; }
  /// The destination takes recipients of only one domain in a transaction, for a day.
  void takes_one_domain(Destination& d);
  /// Whether a destination of the cluster does.
  bool one_domain(const Cluster& c) const;
  /// asked_last_until or one_domain_until has changed.
  void note(const Destination& d);

 private:
  const Options& options_;
  const Clock& clock_;
  const BackOff& back_off_;
  const Memory& memory_;
  WallTime takes_nothing_until_{};  // the latest asked_last_until
  WallTime one_domain_until_{};     // the latest of that name
};

}  // namespace pen::qmgr::scheduler
