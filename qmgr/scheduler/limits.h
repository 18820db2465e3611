#pragma once
/// Limits: how many connections a destination may have, by its transport, by what it was found to accept, by what pays,
/// and by what other hosts of a cluster have open to it.
#include "qmgr/scheduler/back_off.h"
#include "qmgr/scheduler/ceilings.h"
#include "qmgr/scheduler/rate_delay.h"
#include "qmgr/scheduler/shaping.h"
#include "qmgr/scheduler/share.h"

namespace pen::qmgr::scheduler {

class Limits {
 public:
  Limits(const Options& options, const Clock& clock, const BackOff& back_off, const Ceilings& ceilings,
         const RateDelay& rate_delay, const Shares& shares, const Shaping& shaping)
      : options_(options),
        clock_(clock),
        back_off_(back_off),
        ceilings_(ceilings),
        rate_delay_(rate_delay),
        shares_(shares),
        shaping_(shaping) {}
  /// Connections that it may have now.
  std::uint32_t connections(const Destination& d) const {
    const std::uint32_t limit = connections_in_time(d);
    const std::uint32_t allowed = d.holding == 0 ? allowed_at_first(d) : d.allowance;
    return allowed > 0 ? std::min(limit, allowed + d.elsewhere) : limit;
  }
  /// A first connection to it begins, while there is none: it may have as many as initial_destination_concurrency, or
  /// half of those that it had lately, and one more with each job done.
  void begin(Destination& d) const { d.allowance = allowed_at_first(d); }
  /// A connection to it is open now, or is about to end: notes how many it had lately.
  void note_use(Destination& d) const;
  /// The number that results if each job allows one connection more.
  std::uint32_t connections_in_time(const Destination& d) const;
  /// Whether it has as many connections as it accepts, those of other hosts included.
  bool full(const Destination& d) const;
  /// Whether it works, and neither limits nor a pause keep a connection to it from being opened now.
  bool may_open(const Destination& d) const { return !full(d) && works(d); }
  /// The same, or it has only as many as it may have until the next result comes.
  bool may_open_soon(const Destination& d) const {
    return works(d) && (!full(d) || (d.allowance > 0 && d.holding < connections_in_time(d) && !shaping_.full(d) &&
                                     clock_.now >= d.refused_until && d.elsewhere == 0));
  }

 private:
  bool works(const Destination& d) const {
    return !back_off_.dead(d) && !rate_delay_.must_pause(d) && !shares_.holds_its_share(d);
  }
  /// 0: any number.
  std::uint32_t allowed_at_first(const Destination& d) const;
  const Options& options_;
  const Clock& clock_;
  const BackOff& back_off_;
  const Ceilings& ceilings_;
  const RateDelay& rate_delay_;
  const Shares& shares_;
  const Shaping& shaping_;
};

}  // namespace pen::qmgr::scheduler
