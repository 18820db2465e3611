#pragma once
/// Rates of messages, "10/m", and the bucket that holds a flow to one.
///
/// Use:     const auto rate = parse_rate("100/s");            // nullopt: not a rate
///          Bucket bucket; bucket.set(*rate, now);
///          if (bucket.ready(now)) { bucket.take(now); … }     // else look again at bucket.next()
/// Form:    N/s, N/m or N/h, N from 1 to a million.
/// Bucket:  the generic cell rate algorithm: one time instead of a count. What nobody took is kept for a twentieth of
///          a second, so that a timer that comes late costs nothing, and a flow that begins brings no burst.
/// Pure; time is a parameter. Whole numbers only, so that equal events give equal times everywhere.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/time.h"

namespace pen::shaping {

using std::chrono::nanoseconds;

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
  nanoseconds interval() const;
  /// How many that is in this time, a month at most, rounded down.
  std::uint64_t in(seconds time) const;
  auto operator<=>(const Rate&) const = default;
};

std::optional<Rate> parse_rate(std::string_view text);
/// "10/m", "1.5/m": in the unit in which it is at least one, with a decimal below ten; "": there is no limit.
std::string to_string(Rate rate);

class Bucket {
 public:
  /// What was taken beyond the rate so far counts on, at the new rate.
  void set(Rate rate, SteadyTime now);
  Rate rate() const { return rate_; }
  bool ready(SteadyTime now) const { return !rate_.limits() || now >= next(); }
  /// From when it is ready.
  SteadyTime next() const { return due_; }
  void take(SteadyTime now);

 private:
  Rate rate_;
  nanoseconds interval_{0};
  SteadyTime due_{};  // when the next may come
};

}  // namespace pen::shaping
