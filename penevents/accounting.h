#pragma once
/// Deliveries, bounces and deferrals as CSV with the columns of PowerMTA's accounting file, which deliverability tools
/// read.
///
/// Use:     if (auto line = accounting_line(event)) file.append(*line);        // other events have none
/// Form:    RFC 4180, except that lines end with LF; line ends within a value become blanks.
/// Pure; any thread.
#include <optional>
#include <string>
#include <string_view>

#include "lib/suite/events/event.h"

namespace pen::penevents {

/// The first line of a file.
std::string_view accounting_header();
std::optional<std::string> accounting_line(const events::Seen& event);
/// A category of bounces by the enhanced status code: "bad-mailbox", "quota-issues", …, "other".
std::string_view bounce_category(std::string_view dsn);

}  // namespace pen::penevents
