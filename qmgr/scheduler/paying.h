#pragma once
/// How many connections to a host pay: where more of them do not bring more messages per second, fewer do.
///
/// A host may work on a few messages at a time, however many connections it has, or slow down with each connection
/// more. That shows only in comparison: the results in a time, with more and with fewer connections, while all are
/// busy and jobs wait. A trial of half as many costs half of the throughput where the host does scale; it is made
/// when a hundred times as many jobs wait as that may cost, and hosts that are quick are left alone. What is found is
/// kept in destdb; after ceiling_time half as many more are tried when there is work for them. Never fewer than
/// initial_destination_concurrency, with which Postfix begins too.
///
/// Owns:    Destination::yield, the measure under way.
#include <cstdint>
#include <optional>

#include "qmgr/scheduler/clock.h"
#include "qmgr/scheduler/memory.h"
#include "qmgr/scheduler/speed.h"

namespace pen::qmgr::scheduler {

class Paying {
 public:
  Paying(const Options& options, const Clock& clock, const Speed& speed, const Memory& memory)
      : options_(options), clock_(clock), speed_(speed), memory_(memory) {}
  /// The connections that pay, as far as is known; during a trial, those of the trial. 0: any number.
  static std::uint32_t limit(const Destination& d) {
    return d.yield.tried > 0 ? d.yield.tried : d.facts.paying_connections;
  }
  /// What the caller does about a result.
  struct Step {
    bool limit_rose = false;            // perhaps: jobs that wait for it look again
    std::optional<std::uint32_t> keep;  // so many connections of it stay
  };
  /// A result came from the destination, and so many jobs wait that it could have.
  [[nodiscard]] Step learn(Destination& d, std::size_t number) const;

 private:
  Step try_other(Destination& d, std::uint32_t n, std::size_t number) const;
  Step settle(Destination& d, std::uint32_t paying) const;
  const Options& options_;
  const Clock& clock_;
  const Speed& speed_;
  const Memory& memory_;
};

}  // namespace pen::qmgr::scheduler
