#pragma once
/// What the report of one domain's day is called, and the header fields that all such reports begin with.
///
/// Use:     const DayReport report{day.day, day.domain, from};
///          out = report.header(to, now) + …;    attach(report.file("xml.gz"));
/// Owns:    nothing: what it is made of outlives it.
/// Source:  RFC 8460 sections 4.4, 5.1 and 5.3; RFC 9990. Pure; any thread.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/time.h"
#include "lib/send/daily_reports/submitter.h"

namespace pen::daily_reports {

struct DayReport {
  std::int64_t day;  // since 1970-01-01
  const std::string& domain;
  const Submitter& from;

  WallTime begins() const { return WallTime(std::chrono::days(day)); }
  /// The last second of the day.
  WallTime ends() const { return begins() + std::chrono::days(1) - seconds(1); }
  /// The same for the same day, domain and host, however often the report is sent.
  std::string id() const;
  /// "host!domain!begin!end.xml.gz"
  std::string file(std::string_view extension) const;
  /// Date:, From:, To: and Subject:, lines with CRLF.
  std::string header(const std::string& to, WallTime now) const;
};

}  // namespace pen::daily_reports
