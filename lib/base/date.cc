#include "lib/base/date.h"

#include <fmt/format.h>

#include <ctime>

#include "lib/base/text.h"

namespace pen {
namespace {

/// The number that just these digits are; -1: other bytes are among them.
int number(std::string_view text, std::size_t at, std::size_t digits) {
  int value = 0;
  for (const char c : text.substr(at, digits)) value = ascii_digit(c) && value >= 0 ? value * 10 + c - '0' : -1;
  return value;
}

/// What a zone's time is ahead of UTC, from "Z" or "+01:00".
std::optional<minutes> zone_offset(std::string_view zone) {
  if (iequals(zone, "Z")) return minutes(0);
  if (zone.size() != 6 || (zone[0] != '+' && zone[0] != '-') || zone[3] != ':') return std::nullopt;
  const int hour = number(zone, 1, 2), minute = number(zone, 4, 2);
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59) return std::nullopt;
  const minutes offset = std::chrono::hours(hour) + minutes(minute);
  return zone[0] == '-' ? -offset : offset;
}

}  // namespace

std::string utc_day(WallTime at) {
  const std::chrono::year_month_day date{std::chrono::floor<std::chrono::days>(at)};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

std::string utc_text(WallTime at) {
  const std::chrono::hh_mm_ss time{std::chrono::floor<seconds>(at - std::chrono::floor<std::chrono::days>(at))};
  return fmt::format("{}T{:02}:{:02}:{:02}Z", utc_day(at), time.hours().count(), time.minutes().count(),
                     time.seconds().count());
}

std::string local_text(WallTime at, const char* form) {
  const std::time_t moment = unix_seconds(at);
  std::tm tm{};
  ::localtime_r(&moment, &tm);
  char text[200];
  return {text, std::strftime(text, sizeof text, form, &tm)};
}

std::optional<WallTime> parse_day(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  const int year = number(text, 0, 4), month = number(text, 5, 2), day = number(text, 8, 2);
  if (year < 0 || month < 0 || day < 0) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  return WallTime(std::chrono::sys_days(date));
}

std::optional<WallTime> parse_date_time(std::string_view text) {
  // "2026-12-01T08:00:00", then a fraction, then "Z" or "+01:00".
  if (text.size() < 20 || ascii_lower(text[10]) != 't' || text[13] != ':' || text[16] != ':') return std::nullopt;
  const auto day = parse_day(text.substr(0, 10));
  const int hour = number(text, 11, 2), minute = number(text, 14, 2), second = number(text, 17, 2);
  // 60: a leap second.
  if (!day || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) return std::nullopt;
  std::size_t at = 19;
  if (text[at] == '.') {
    const std::size_t begin = ++at;
    while (at < text.size() && ascii_digit(text[at])) ++at;
    if (at == begin) return std::nullopt;
  }
  const auto offset = zone_offset(text.substr(at));
  if (!offset) return std::nullopt;
  const WallTime when = *day + std::chrono::hours(hour) + minutes(minute) + seconds(second) - *offset;
  if (when < WallTime{}) return std::nullopt;
  return when;
}

std::optional<WallTime> parse_date(std::string_view text) {
  constexpr std::size_t kDay = 10, kWithoutSeconds = 17;
  if (text.size() == kDay) return parse_day(text);
  if (text.size() == kWithoutSeconds && text.ends_with('Z'))
    return parse_date_time(std::string(text.substr(0, kWithoutSeconds - 1)) + ":00Z");
  return parse_date_time(text);
}

}  // namespace pen
