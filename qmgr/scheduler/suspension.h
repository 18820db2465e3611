#pragma once
/// Suspension: by hand (destdb) and by rule (defer_destinations). What is suspended counts as not working: jobs go to
/// other hosts of their route, and are deferred if there are none; they hold no worker and no place in the active set.
///
/// Use:     judge() writes the reason into a route set or a destination (suspended; empty: it may be delivered to), and
///          is called again when its verdict is old(). Acting on a change is the caller's.
#include <string>
#include <string_view>
#include <vector>

#include "qmgr/scheduler/clock.h"
#include "qmgr/scheduler/cluster.h"
#include "qmgr/scheduler/destination.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr::scheduler {

class Suspensions {
 public:
  Suspensions(const Options& options, const destdb::Table& table, const Clock& clock)
      : options_(options), table_(table), clock_(clock) {}
  void judge(RouteSet& r) const;
  void judge(Destination& d) const;
  /// Whether the rule is to be asked again: its answer may have changed without an event.
  bool old(SteadyTime judged) const { return judged + options_.rule_time <= clock_.now; }
  /// Whether there is a rule (which is asked for each name by itself).
  bool has_rule() const { return static_cast<bool>(options_.deferral_rule); }
  /// Why nothing goes to the recipient's domain; empty: it may.
  std::string verdict_on_recipient(std::string_view recipient) const;

 private:
  bool nothing_is() const { return table_.suspensions().empty() && !options_.deferral_rule; }  // nearly always
  /// The same for one of these names, or the address.
  std::string verdict(const std::vector<std::string>& names, std::string_view rule_name,
                      std::string_view rule_address) const;
  const Options& options_;
  const destdb::Table& table_;
  const Clock& clock_;
};

}  // namespace pen::qmgr::scheduler
