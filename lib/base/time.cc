#include "lib/base/time.h"

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
  std::string text;
  text.reserve(48);
  const auto two_digits = [&text](long n) {
    text += static_cast<char>('0' + n / 10);
    text += static_cast<char>('0' + n % 10);
  };
  text.append(kDays[tm.tm_wday]).append(", ").append(std::to_string(tm.tm_mday)).append(" ");
  text.append(kMonths[tm.tm_mon]).append(" ").append(std::to_string(tm.tm_year + 1900)).append(" ");
  two_digits(tm.tm_hour);
  text += ':';
  two_digits(tm.tm_min);
  text += ':';
  two_digits(tm.tm_sec);
  text += offset < 0 ? " -" : " +";
  two_digits(abs / 60);
  two_digits(abs % 60);
  return text.append(" (").append(tm.tm_zone ? tm.tm_zone : "").append(")");
}
}  // namespace pen
