#pragma once
/// The aggregate report of one domain and day: as XML, and as a message.
///
/// Use:     auto body = daily_reports::compress(report_xml(day, submitter));
///          auto message = report_mail(day, submitter, "dmarc@example.org", body, now, random);
/// Source:  RFC 9990; the form is that of RFC 7489 appendix C, which every reader of reports knows. Pure.
#include <string>

#include "dmarcrpt/gather.h"
#include "lib/base/random.h"
#include "lib/send/daily_reports/submitter.h"

namespace pen::dmarcrpt {

using daily_reports::Submitter;

std::string report_xml(const DomainDay& day, const Submitter& from);
/// The whole message in stored form (CRLF), to one address. compressed: daily_reports::compress(report_xml(…)).
std::string report_mail(const DomainDay& day, const Submitter& from, const std::string& to,
                        const std::string& compressed, WallTime now, Random& random);

/// Text as content of an element: markup is escaped; what is not printable ASCII becomes a question mark.
std::string xml_text(std::string_view text);

}  // namespace pen::dmarcrpt
