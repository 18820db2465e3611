#pragma once
/// Dates and times of day as text: for files, commands and people. No clock.
///
/// Forms:   of UTC, as RFC 3339 has it: "2026-12-01T06:00:00Z", and of that the day alone; of the host's zone for
///          people: "2026-12-01 06:00:00". Dates of mail are in lib/base/time.h.
/// Use:     const auto at = parse_date("2026-12-01T06:00Z");    if (at) print(utc_text(*at));
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/time.h"

namespace pen {

/// "2026-12-01T06:00:00Z".
std::string utc_text(WallTime at);
/// "2026-12-01".
std::string utc_day(WallTime at);
/// Local time, by strftime(3): with the usual form "2026-12-01 06:00:00". Empty: the form gives nothing, or more than
/// 200 bytes.
[[gnu::format(strftime, 2, 0)]] std::string local_text(WallTime at, const char* form = "%Y-%m-%d %H:%M:%S");

/// A day as utc_day() writes it: its first moment. nullopt: no such day.
std::optional<WallTime> parse_day(std::string_view text);
/// date-time of RFC 3339 section 5.6, with any zone. nullopt: malformed, or before 1970.
std::optional<WallTime> parse_date_time(std::string_view text);
/// As an administrator writes it: a day, or a date-time, without seconds if it is one of UTC ("2026-12-01T06:00Z").
/// nullopt: none of them.
std::optional<WallTime> parse_date(std::string_view text);

}  // namespace pen
