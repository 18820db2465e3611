#pragma once
/// The choice of a connection for a job, in the order of docs/design.md. It only looks: Model::try_level() carries out
/// what is chosen, and `pendest explain` shows it.
#include <cstdint>
#include <memory>
#include <vector>

#include "qmgr/scheduler/windows.h"

namespace pen::qmgr::scheduler {

class Chooser {
 public:
  Chooser(const Options& options, const BackOff& back_off, const Speed& speed, const RateDelay& rate_delay,
          const Limits& limits, const Shares& shares, const Finish& finish, const Windows& windows)
      : options_(options),
        back_off_(back_off),
        speed_(speed),
        rate_delay_(rate_delay),
        limits_(limits),
        shares_(shares),
        finish_(finish),
        windows_(windows) {}
  struct Chosen {
    Choice rule = Choice::nothing;
    Connection* connection = nullptr;      // room, idle, ride
    std::vector<Destination*> candidates;  // for a new connection: one of them
    Waits waits = Waits::worker;           // if the rule is to wait
    // There is a connection, but others would be done sooner, with so many jobs in so long; 0: there is none.
    std::size_t others_can = 0;
    microseconds others_take{0};
  };
  /// The choice on one level of the cluster. concurrency: workers that the party holds. alone: for the job that runs
  /// alone, which limits of fairness do not hold up. behind: jobs that come as soon as this one is out of their way.
  Chosen choose(const Cluster& c, std::size_t level, std::uint64_t concurrency, bool alone, std::size_t behind) const;

 private:
  using Level = std::vector<std::unique_ptr<Member>>;
  /// best: destinations that are slow beside it are left out; 0: none is left out.
  Chosen choose(const Cluster& c, std::size_t level, std::uint64_t concurrency, bool alone, std::size_t behind,
                microseconds best) const;
  /// The one with the fewest jobs of those that would hand out another one now; nullptr: there is none.
  Connection* with_room(const Level& level) const;
  static Connection* pick_ride(const Level& level, const Connection& newest);
  void pick_new(const Level& level, microseconds best, bool may_probe, std::size_t behind, Chosen& into) const;
  /// Removes destinations from the candidates for a new connection if others would have the job done sooner.
  void drop_later(const Level& level, std::size_t behind, std::vector<Destination*>& those, Chosen& into) const;
  const Options& options_;
  const BackOff& back_off_;
  const Speed& speed_;
  const RateDelay& rate_delay_;
  const Limits& limits_;
  const Shares& shares_;
  const Finish& finish_;
  const Windows& windows_;
};

}  // namespace pen::qmgr::scheduler
