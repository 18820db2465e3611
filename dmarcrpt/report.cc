#include "dmarcrpt/report.h"

#include <fmt/format.h>

#include "lib/base/date.h"
#include "lib/base/text.h"
#include "lib/send/daily_reports/day_report.h"

namespace pen::dmarcrpt {
namespace {

using daily_reports::DayReport;

/// Writes elements with two blanks for each level.
class Xml {
 public:
  void open(std::string_view name) {
    indent();
    out_ += fmt::format("<{}>\n", name);
    ++depth_;
  }
  void close(std::string_view name) {
    --depth_;
    indent();
    out_ += fmt::format("</{}>\n", name);
  }
  void text(std::string_view name, std::string_view value) {
    indent();
    out_ += fmt::format("<{}>{}</{}>\n", name, xml_text(value), name);
  }
  /// Left out if it is empty.
  void optional(std::string_view name, std::string_view value) {
    if (!value.empty()) text(name, value);
  }
  std::string take() { return std::move(out_); }

 private:
  void indent() { out_.append(depth_ * 2, ' '); }
  std::string out_ = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  std::size_t depth_ = 0;
};

void write_published(Xml& xml, const Published& p) {
  xml.open("policy_published");
  xml.text("domain", p.domain);
  xml.text("adkim", p.strict_dkim ? "s" : "r");
  xml.text("aspf", p.strict_spf ? "s" : "r");
  xml.text("p", p.policy);
  xml.text("sp", p.subdomains.empty() ? p.policy : p.subdomains);
  xml.optional("np", p.missing);
  xml.text("pct", std::to_string(p.percent));
  if (p.testing) xml.text("testing", "y");
  xml.close("policy_published");
}

void write_row(Xml& xml, const Row& row) {
  const Facts& f = row.facts;
  xml.open("record");
  xml.open("row");
  xml.text("source_ip", f.source_ip);
  xml.text("count", std::to_string(row.count));
  xml.open("policy_evaluated");
  xml.text("disposition", f.disposition);
  xml.text("dkim", f.dkim ? "pass" : "fail");
  xml.text("spf", f.spf ? "pass" : "fail");
  if (!f.override_type.empty()) {
    xml.open("reason");
    xml.text("type", f.override_type);
    xml.optional("comment", f.override_comment);
    xml.close("reason");
  }
  xml.close("policy_evaluated");
  xml.close("row");
  xml.open("identifiers");
  xml.text("envelope_from", f.envelope_from);
  xml.text("header_from", f.header_from);
  xml.close("identifiers");
  xml.open("auth_results");
  for (const Signature& s : f.signatures) {
    xml.open("dkim");
    xml.text("domain", s.domain);
    xml.optional("selector", s.selector);
    xml.text("result", s.result);
    xml.close("dkim");
  }
  xml.open("spf");
  xml.text("domain", f.spf_domain);
  xml.optional("scope", f.spf_scope);
  xml.text("result", f.spf_result.empty() ? "none" : f.spf_result);
  xml.close("spf");
  xml.close("auth_results");
  xml.close("record");
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text, text.size())) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string report_xml(const DomainDay& day, const Submitter& from) {
  const DayReport report{day.day, day.domain, from};
  Xml xml;
  xml.open("feedback");
  xml.text("version", "1.0");
  xml.open("report_metadata");
  xml.text("org_name", from.organization);
  xml.text("email", from.contact);
  xml.text("report_id", report.id());
  xml.open("date_range");
  xml.text("begin", std::to_string(unix_seconds(report.begins())));
  xml.text("end", std::to_string(unix_seconds(report.ends())));
  xml.close("date_range");
  if (day.beyond > 0)
    xml.text("error", fmt::format("{} more messages, of too many different kinds to be told apart", day.beyond));
  xml.close("report_metadata");
  write_published(xml, day.published);
  for (const Row& row : day.rows) write_row(xml, row);
  xml.close("feedback");
  return xml.take();
}

std::string report_mail(const DomainDay& day, const Submitter& from, const std::string& to,
                        const std::string& compressed, WallTime now, Random& random) {
  const std::string boundary = fmt::format("{:016X}.{:016X}/{}", random.next(), random.next(), from.host);
  const DayReport report{day.day, day.domain, from};
  std::string out = report.header(to, now);
  out += fmt::format("Message-ID: <{}.{:016X}@{}>\r\n", unix_seconds(now), random.next(), from.host);
  out += "Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n";
  out += fmt::format("Content-Type: multipart/mixed;\r\n\tboundary=\"{}\"\r\n\r\n", boundary);
  const std::string text =
      fmt::format("This is a DMARC aggregate report (RFC 9990) from {}\r\non mail from {}, {} (UTC).\r\n", from.host,
                  day.domain, utc_day(report.begins()));
  return out + daily_reports::report_parts(boundary, text, "application/gzip", report.file("xml.gz"), compressed);
}

}  // namespace pen::dmarcrpt
