#pragma once
/// Counts what DMARC said of mail, by day and by the domain of the policy (lib/send/daily_reports/days.h).
///
/// Use:     add(days, result, wall_now);
/// Bounds:  kMaxRows kinds of messages of a domain's day, and the bytes of Days; those beyond are counted as one number
///          in the report. Texts are cut at kMaxText, signatures at kMaxSignatures.
/// Thread:  one. No I/O.
/// Source:  RFC 9990.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/time.h"
#include "lib/send/daily_reports/days.h"
#include "lib/suite/ipc/dmarc_report.h"

namespace pen::dmarcrpt {

using ipc::dmarc_report::Facts;
using ipc::dmarc_report::Published;
using ipc::dmarc_report::Signature;

struct Row {
  Facts facts;
  std::uint64_t count = 0;
  PEN_FIELDS(facts, count)
};
struct DomainDay {
  std::int64_t day = 0;  // since 1970-01-01
  std::string domain;    // lower case
  Published published;   // as it was seen last
  std::vector<Row> rows;
  std::uint64_t beyond = 0;  // messages for which there was no row
  std::vector<std::string> reached;
  std::uint64_t taken = 0;  // of all, those that were not refused
  std::size_t bytes = 0;    // for Days
  std::size_t reckoned() const;
  PEN_FIELDS(day, domain, published, rows, beyond, reached, taken)
};

inline constexpr std::size_t kMaxRows = 5'000, kMaxText = 255, kMaxSignatures = 10;

/// Whether any mail of the day was taken. Where all of it was refused the domain is not told: such mail comes in the
/// names of many domains that send none here, and each would get a report a day.
bool takes_mail(const DomainDay& day);

/// False: there is no room for another domain, or the name is invalid.
bool add(daily_reports::Days<DomainDay>& days, const ipc::dmarc_report::Result& result, WallTime now);

}  // namespace pen::dmarcrpt
