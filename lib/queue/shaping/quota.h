#pragma once
/// What went within the time of a quota, so that no more goes than it allows.
///
/// Use:     QuotaWindow window; window.set({5000, seconds(3600)});
///          if (window.ready(now)) { window.take(now); … }      // else look again at window.opens()
/// Rule:    the window slides: of any N + 1 messages one after the other, the last comes its time after the first, or
///          later. So no interval of that length sees more than N, wherever it begins; a receiver that counts by full
///          hours is held to as well. A count that is emptied with each hour would let twice the number through around
///          its end.
/// Bounds:  kParts + 1 counts of messages that went one after the other, each with the time of its last, for which all
///          of them count. So what may go again is late by as long as a part of the number took to go; where N is
///          kParts or less nothing is.
/// Pure; time is a parameter.
#include <algorithm>
#include <cstdint>
#include <deque>

#include "lib/base/rate.h"
#include "lib/base/time.h"

namespace pen::shaping {

class QuotaWindow {
 public:
  static constexpr std::uint64_t kParts = 64;
  /// Messages that went one after the other.
  struct Part {
    SteadyTime last{};
    std::uint64_t count = 0;
    bool operator==(const Part&) const = default;
  };

  /// What went counts on.
  void set(const Quota& quota);
  const Quota& quota() const { return quota_; }
  bool ready(SteadyTime now) const { return now >= opens(); }
  /// From when one more may go after `before` others; kNever: these have to go first.
  SteadyTime opens(std::uint64_t before = 0) const;
  /// The same, reckoned for any number of others that go as soon as they may.
  SteadyTime reckoned(std::uint64_t before, SteadyTime now) const;
  /// How many may go from now until then.
  std::uint64_t until(SteadyTime then, SteadyTime now) const;
  void take(SteadyTime now) { add(1, now); }
  /// So many went, not before what was added until now.
  void add(std::uint64_t count, SteadyTime at);
  /// How many count now.
  std::uint64_t used(SteadyTime now) const;
  const std::deque<Part>& parts() const { return parts_; }

 private:
  std::uint64_t part_size() const { return (remembered_ + kParts - 1) / kParts; }
  void put(std::uint64_t count, SteadyTime at);

  Quota quota_;
  std::uint64_t remembered_ = 0;  // of the last that went: as many as the number says, or said when they went
  std::deque<Part> parts_;        // the oldest first
  std::uint64_t used_ = 0;        // their sum
};

}  // namespace pen::shaping
