#include "tlsrpt/report.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "lib/base/date.h"
#include "lib/base/text.h"
#include "lib/send/daily_reports/day_report.h"

namespace pen::tlsrpt {
namespace {

using daily_reports::DayReport;

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 12> kResults = {"success",
                                                       "starttls-not-supported",
                                                       "certificate-host-mismatch",
                                                       "certificate-expired",
                                                       "certificate-not-trusted",
                                                       "validation-failure",
                                                       "tlsa-invalid",
                                                       "dnssec-invalid",
                                                       "dane-required",
                                                       "sts-policy-fetch-error",
                                                       "sts-policy-invalid",
                                                       "sts-webpki-invalid"};
constexpr std::array<std::string_view, 3> kPolicies = {"no-policy-found", "tlsa", "sts"};

Json json_of(const PolicyResult& p, const std::string& domain) {
  Json policy;
  policy["policy-type"] = policy_word(p.type);
  if (!p.strings.empty()) policy["policy-string"] = p.strings;
  policy["policy-domain"] = domain;
  if (!p.mx_patterns.empty()) policy["mx-host"] = p.mx_patterns;
  Json out;
  out["policy"] = std::move(policy);
  out["summary"]["total-successful-session-count"] = p.successes;
  out["summary"]["total-failure-session-count"] = p.failures;
  if (!p.details.empty()) out["failure-details"] = Json::array();
  for (const Failure& f : p.details) {
    Json one;
    one["result-type"] = result_word(f.result);
    if (!f.sending_ip.empty()) one["sending-mta-ip"] = f.sending_ip;
    if (!f.mx_host.empty()) one["receiving-mx-hostname"] = f.mx_host;
    if (!f.receiving_ip.empty()) one["receiving-ip"] = f.receiving_ip;
    one["failed-session-count"] = f.count;
    if (!f.reason.empty()) one["failure-reason-code"] = f.reason;
    out["failure-details"].push_back(std::move(one));
  }
  return out;
}

}  // namespace

std::string_view result_word(ResultType type) {
  const auto i = static_cast<std::size_t>(type);
  return i < kResults.size() ? kResults[i] : "validation-failure";
}
std::string_view policy_word(PolicyType type) {
  const auto i = static_cast<std::size_t>(type);
  return i < kPolicies.size() ? kPolicies[i] : "no-policy-found";
}

std::string report_json(const DomainDay& day, const Submitter& from) {
  const DayReport report{day.day, day.domain, from};
  Json j;
  j["organization-name"] = from.organization;
  j["date-range"]["start-datetime"] = utc_text(report.begins());
  j["date-range"]["end-datetime"] = utc_text(report.ends());
  j["contact-info"] = from.contact;
  j["report-id"] = report.id();
  j["policies"] = Json::array();
  for (const PolicyResult& p : day.policies) j["policies"].push_back(json_of(p, day.domain));
  return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string report_mail(const DomainDay& day, const Submitter& from, const std::string& to,
                        const std::string& compressed, WallTime now, Random& random) {
  const std::string boundary = fmt::format("{:016X}.{:016X}/{}", random.next(), random.next(), from.host);
  const DayReport report{day.day, day.domain, from};
  std::string out = report.header(to, now);
  out += fmt::format("TLS-Report-Domain: {}\r\nTLS-Report-Submitter: {}\r\n", day.domain, from.host);
  out += fmt::format("Message-ID: <{}.{:016X}@{}>\r\n", unix_seconds(now), random.next(), from.host);
  // Broken TLS of the domain must not stop the report of it (RFC 8460 section 3, RFC 8689 section 3).
  out += "TLS-Required: No\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n";
  out += fmt::format("Content-Type: multipart/report; report-type=\"tlsrpt\";\r\n\tboundary=\"{}\"\r\n\r\n", boundary);
  const std::string text =
      fmt::format("This is an aggregate report on TLS (RFC 8460) from {}\r\nfor mail to {}, {} (UTC).\r\n", from.host,
                  day.domain, utc_day(report.begins()));
  return out +
         daily_reports::report_parts(boundary, text, "application/tlsrpt+gzip", report.file("json.gz"), compressed);
}

}  // namespace pen::tlsrpt
