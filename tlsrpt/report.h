#pragma once
/// The report of one policy domain and day: as JSON, compressed, and as a message.
///
/// Use:     auto body = daily_reports::compress(report_json(day, submitter));
///          auto message = report_mail(day, submitter, "tls@example.org", body, now, random);
/// Source:  RFC 8460 section 4.4 (JSON), 5.1 (file name), 5.3 (message), 6.4 (multipart/report). Pure.
#include <string>

#include "lib/base/random.h"
#include "lib/send/daily_reports/submitter.h"
#include "tlsrpt/gather.h"

namespace pen::tlsrpt {

using daily_reports::Submitter;

std::string report_json(const DomainDay& day, const Submitter& from);
/// The whole message in stored form (CRLF), to one address. compressed: compress(report_json(…)).
std::string report_mail(const DomainDay& day, const Submitter& from, const std::string& to,
                        const std::string& compressed, WallTime now, Random& random);

/// "starttls-not-supported", …; "sts", "tlsa", "no-policy-found".
std::string_view result_word(ResultType type);
std::string_view policy_word(PolicyType type);

}  // namespace pen::tlsrpt
