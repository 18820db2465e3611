#pragma once
/// Shares of the active set: hosts that are slow beside what waits for them must not fill it while others wait.
///
/// A relay host may have the whole active set as long as it takes what it is given: a message that would be delivered
/// before it could come back from the shortest retry log is not parked. Hosts of which nothing says that they work
/// count together: what waits for probes (probes.h) is parked as well beyond one share. What was given to a
/// connection cannot be parked. So the connections of a host hold no more jobs than one share, two while it answers:
/// where the active set is small, one tarpit's connections could else hold all of it.
///
/// Use:     note(cluster) when messages come to wait there, or cease to; excess() names one to be parked.
#include <optional>

#include "qmgr/scheduler/back_off.h"
#include "qmgr/scheduler/clock.h"
#include "qmgr/scheduler/cluster.h"
#include "qmgr/scheduler/destination.h"
#include "qmgr/scheduler/speed.h"

namespace pen::qmgr::scheduler {

class Shares {
 public:
  Shares(const Options& options, const Clock& clock, const BackOff& back_off, const Speed& speed)
      : options_(options), clock_(clock), back_off_(back_off), speed_(speed) {}
  /// Whether its connections hold as many jobs as it may have of the active set: what comes now waits where it can be
  /// parked.
  bool holds_its_share(const Destination& d) const {
    return options_.share_limit != 0 && d.transport->solo == nullptr && d.waiting + d.handed >= options_.share_limit &&
           !may_have_more(d);
  }
  /// Cluster::share_count has changed.
  void note(Cluster& c);
  /// Whether more messages than a share wait for one cluster.
  bool crowded() const { return !crowded_.empty(); }
  /// The message that came last to a cluster with more than its share, if the cluster will not deliver it soon.
  std::optional<MessageNumber> excess() const;
  /// Whether more messages than a share wait for probes of the transport.
  bool crowded(const Transport& t) const;
  /// The one of them that came last, if the first has waited for some time.
  std::optional<MessageNumber> excess(const Transport& t) const;

 private:
  /// Whether it holds its share, and takes what it is given fast enough for another share.
  bool may_have_more(const Destination& d) const;
  /// Whether the messages that wait for it will wait for long.
  bool drains_slowly(const Cluster& c) const;
  const Options& options_;
  const Clock& clock_;
  const BackOff& back_off_;
  const Speed& speed_;
  List<Cluster> crowded_;
};

}  // namespace pen::qmgr::scheduler
