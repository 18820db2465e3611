#pragma once
/// The sender of daily reports, and what their messages have in common.
///
/// Use:     auto bytes = compress(xml);   message += base64_lines(bytes);
/// Pure; any thread.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pen::daily_reports {

/// The sender of reports.
struct Submitter {
  std::string host;          // myhostname
  std::string organization;  // tlsrpt_organization, dmarc_report_organization
  std::string contact;
  std::string sender;  // From: and envelope sender
};

/// Where a report goes.
struct Target {
  enum class Kind : std::uint8_t { mail, https } kind = Kind::mail;
  std::string value;           // an address without "mailto:"; a whole URL
  std::uint64_t max_size = 0;  // bytes of the compressed report; 0: no limit
  bool operator==(const Target&) const = default;
};

/// gzip (RFC 1952). The same text gives the same bytes.
std::string compress(const std::string& text);
/// Base 64 in lines of 76 characters, CRLF after each.
std::string base64_lines(std::string_view bytes);

/// The parts of a report's message, to its end: what people read ("This is … report …", lines with CRLF), and the
/// compressed report as a file of that type and name.
std::string report_parts(std::string_view boundary, std::string_view text, std::string_view type,
                         std::string_view file_name, std::string_view compressed);

/// Addresses of targets, as "mailto:" URIs name them: an address without the scheme and header fields; nullopt: it is
/// malformed, or not safe in an envelope.
std::optional<std::string> address_of_mailto(std::string_view uri);

}  // namespace pen::daily_reports
