#include "lib/base/time.h"

#include <cstdio>
#include <ctime>

namespace pen {
namespace {
class SystemClock final : public Clock {
 public:
  SteadyTime now() const override { return std::chrono::steady_clock::now(); }
  WallTime wall_now() const override {
    return std::chrono::time_point_cast<microseconds>(std::chrono::system_clock::now());
  }
};
}  // namespace

const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

std::string rfc5322_date(WallTime t) {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t when = static_cast<std::time_t>(unix_seconds(t));
  std::tm tm{};
  ::localtime_r(&when, &tm);
  const long offset = tm.tm_gmtoff / 60;
  const long abs = offset < 0 ? -offset : offset;
  char text[96];
  const int n = std::snprintf(text, sizeof text, "%s, %d %s %d %02d:%02d:%02d %c%02ld%02ld (%s)", kDays[tm.tm_wday],
                              tm.tm_mday, kMonths[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec,
                              offset < 0 ? '-' : '+', abs / 60, abs % 60, tm.tm_zone ? tm.tm_zone : "");
  return std::string(text, static_cast<std::size_t>(n));
}
}  // namespace pen
