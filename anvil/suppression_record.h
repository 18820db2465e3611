#pragma once
/// What is stored of an address of the suppression list, and what a failure makes of it. No I/O, no clock.
///
/// Use:     auto judged = judged_after(known, failure, rules, now);
///          if (judged.changed) store(key_of(failure.tenant, failure.address), judged.record);
/// States:  watched: it has failed, but not often enough; listed; removed: by order, in a cluster, where other hosts
///          must hear of it.
/// Days:    of UTC. What was said here and what notices say are counted apart, for anybody can forge a notice.
/// Source:  docs/suppression.md.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/codec.h"
#include "lib/base/time.h"
#include "lib/suite/ipc/suppression.h"

namespace pen::anvil {

using SuppressionReason = ipc::suppression::Reason;

struct SuppressionRules {
  std::uint32_t bounce_days = 3, returned_days = 3;
  seconds bounce_time{0}, returned_time{0}, complaint_time{0};  // 0: that reason adds none
  seconds count_time{86'400};                                   // for how long the days of failures count
};

struct SuppressionRecord {
  enum class State : std::uint8_t { watched, listed, removed };
  State state = State::watched;
  SuppressionReason reason = SuppressionReason::bounce;
  WallTime changed{};                                // of hosts' records of an address the latest counts
  std::int64_t expires = 0;                          // seconds since 1970; 0: never
  std::uint32_t bounce_days = 0, returned_days = 0;  // on which it failed
  std::int64_t bounce_day = -1, returned_day = -1;   // the last of these, in days since 1970
  std::string text;
  bool by_strangers = false;  // nobody has said it but notices and reports, which anybody can forge
  PEN_FIELDS(state, reason, changed, expires, bounce_days, returned_days, bounce_day, returned_day, text, by_strangers)

  /// One that another host has told of: whether it makes sense. Its text is brought into the form of ours.
  bool take_in();

  bool holds(WallTime now) const { return expires == 0 || unix_seconds(now) < expires; }
  bool listed(WallTime now) const { return state == State::listed && holds(now); }
};

/// The key of an address for a tenant ("": for all); both are brought into the form in which they compare. "": it is
/// too long to be stored, or no address.
std::string suppression_key(std::string_view tenant, std::string_view address);
/// The tenant and the address of a key.
std::pair<std::string_view, std::string_view> suppression_names(std::string_view key);

ipc::suppression::Entry entry_of(std::string_view key, SuppressionRecord record);

struct SuppressionVerdict {
  SuppressionRecord record;
  bool changed = false;  // it is to be stored
  bool added = false;    // the address comes onto the list
};
SuppressionVerdict judged_after(const std::optional<SuppressionRecord>& known, const ipc::suppression::Failure& failure,
                                const SuppressionRules& rules, WallTime now);

}  // namespace pen::anvil
