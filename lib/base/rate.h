#pragma once
/// Rates of messages as people write them: "10/m", or several at once, "20/s,300/m,5000/h".
///
/// Use:     const auto rate = parse_rate("100/s");              // nullopt: not a rate
///          const auto rates = parse_rates("20/s,5000/h");      // else what is wrong with them
/// Form:    N/s, N/m, N/h or N/d, N from 1 to a million. Of several, with commas or white space between them, each has
///          its own unit, and each slower one is less than the next quicker one makes in its time: else it would hold
///          nothing back. The quickest is a Rate, held from message to message; the others are Quotas.
/// Pure. Whole numbers only.
#include <chrono>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"

namespace pen {

/// In thousandths of a message per hour. 0: there is no limit.
struct Rate {
  std::uint64_t thousandths = 0;
  static constexpr std::uint64_t kMostPerUnit = 1'000'000;
  static constexpr std::uint64_t kMost = kMostPerUnit * 3600 * 1000;  // a million in a second
  static constexpr Rate per_minute(std::uint64_t n) { return {n * 60 * 1000}; }
  static constexpr Rate per_second(std::uint64_t n) { return {n * 3600 * 1000}; }
  static constexpr Rate per_hour(std::uint64_t n) { return {n * 1000}; }
  bool limits() const { return thousandths > 0; }
  /// Between two messages.
  std::chrono::nanoseconds interval() const;
  /// How many that is in this time, a month at most, rounded down.
  std::uint64_t in(seconds time) const;
  auto operator<=>(const Rate&) const = default;
};

/// So many within any time of this length, at most.
struct Quota {
  std::uint64_t most = 0;
  seconds within{0};  // a minute, an hour or a day
  bool operator==(const Quota&) const = default;
};

/// What holds at once.
struct Rates {
  Rates() = default;
  Rates(Rate only) : rate(only) {}  // most have one
  Rate rate;                        // the quickest; none: nothing holds
  std::vector<Quota> quotas;        // the shortest time first
  bool limits() const { return rate.limits(); }
  bool operator==(const Rates&) const = default;
};

std::optional<Rate> parse_rate(std::string_view text);
/// The error is the rest of a sentence that names what was given: "has two rates by the hour".
std::expected<Rates, std::string> parse_rates(std::string_view text);

/// "10/m", "1.5/m": in the unit in which it is at least one, with a decimal below ten; "": there is no limit.
std::string to_string(Rate rate);
/// "5000/h"
std::string to_string(const Quota& quota);
/// "20/s,5000/h"; of several, parse_rates() reads it as what it was.
std::string to_string(const Rates& rates);

}  // namespace pen
