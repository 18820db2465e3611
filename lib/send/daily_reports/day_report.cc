#include "lib/send/daily_reports/day_report.h"

#include <fmt/format.h>

#include "lib/base/date.h"

namespace pen::daily_reports {

std::string DayReport::id() const { return fmt::format("{}.{}@{}", utc_day(begins()), domain, from.host); }

std::string DayReport::file(std::string_view extension) const {
  return fmt::format("{}!{}!{}!{}.{}", from.host, domain, unix_seconds(begins()), unix_seconds(ends()), extension);
}

std::string DayReport::header(const std::string& to, WallTime now) const {
  // Domain and address come from outside; both were checked to hold only printable characters.
  return fmt::format(
      "Date: {}\r\nFrom: {}\r\nTo: {}\r\n"
      "Subject: Report Domain: {}\r\n Submitter: {}\r\n Report-ID: <{}>\r\n",
      rfc5322_date(now), from.sender, to, domain, from.host, id());
}

}  // namespace pen::daily_reports
