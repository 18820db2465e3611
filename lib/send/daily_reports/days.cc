#include "lib/send/daily_reports/days.h"

#include <algorithm>
#include <chrono>

#include "lib/base/text.h"

namespace pen::daily_reports {

bool is_host_name(std::string_view text) {
  return !text.empty() && text.size() <= 255 && text.front() != '.' &&
         std::ranges::all_of(text, [](char c) { return ascii_alnum(c) || c == '-' || c == '.' || c == '_'; });
}

std::int64_t day_of(WallTime t) { return std::chrono::floor<std::chrono::days>(t).time_since_epoch().count(); }

std::string lower_name(std::string_view domain) { return to_lower(domain); }

WallTime send_time(std::uint64_t seed, std::int64_t day, std::string_view domain) {
  // FNV-1a with the seed mixed in: spread, not secrecy.
  std::uint64_t h = 14695981039346656037ULL ^ (seed + static_cast<std::uint64_t>(day));
  for (const char c : domain) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  h = ((h ^ (h >> 32)) * 0x9E3779B97F4A7C15ULL) >> 16;
  return WallTime(std::chrono::days(day + 1)) + seconds(h % static_cast<std::uint64_t>(kSpread.count()));
}

std::uint64_t seed_of(std::string_view host) {
  std::uint64_t h = 0;
  for (const char c : host) h = h * 31 + static_cast<unsigned char>(c);
  return h;
}

}  // namespace pen::daily_reports
