#pragma once
/// Points in time and the clocks that give them. Cores take a Clock; they never ask the system.
///
/// SteadyTime is for waits and deadlines and never jumps; WallTime is calendar time and may jump.
#include <chrono>
#include <string>

namespace pen {

using SteadyTime = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

inline constexpr SteadyTime kNever = SteadyTime::max();

/// Where time comes from. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual SteadyTime now() const = 0;
  virtual WallTime wall_now() const = 0;
};
/// The machine's clocks.
const Clock& system_clock();

/// Seconds since 1970, whole and as a fraction for log lines.
inline long long unix_seconds(WallTime t) { return std::chrono::floor<seconds>(t.time_since_epoch()).count(); }
/// RFC 5322 section 3.3 date-time in local time, e.g. "Sat, 21 Nov 2026 08:46:56 +0000 (UTC)".
std::string rfc5322_date(WallTime t);

}  // namespace pen
