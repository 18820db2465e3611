#pragma once
/// Conversation "dmarc_report": smtpd reports to dmarcrpt what DMARC said of a message, for the reports of RFC 9990.
///
/// Results are hints and are not answered: a program that cannot send one drops it. Send asks for the reports on what
/// has gathered, also of the day that is not over: for tests and for an administrator who wants to see one.
/// Source:  RFC 9990, RFC 7489 section 7.2 and appendix C: the words of all fields are those of the report.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/base/codec.h"

namespace pen::ipc::dmarc_report {

inline constexpr std::string_view kName = "dmarc_report";

/// What the domain's owner had published.
struct Published {
  std::string domain;  // where the record is
  std::string policy, subdomains, missing;
  bool strict_dkim = false, strict_spf = false, testing = false;
  std::uint32_t percent = 100;
  bool operator==(const Published&) const = default;
  PEN_FIELDS(domain, policy, subdomains, missing, strict_dkim, strict_spf, testing, percent)
};
struct Signature {
  std::string domain, selector, result;
  bool operator==(const Signature&) const = default;
  PEN_FIELDS(domain, selector, result)
};
/// Of one message; equal ones are counted together.
struct Facts {
  std::string source_ip;
  std::string disposition;                      // what was done with it: none, quarantine, reject
  bool dkim = false, spf = false;               // an identity passed, and belongs to the domain in From:
  std::string override_type, override_comment;  // why less was done than the policy asks for; may be empty
  std::string header_from, envelope_from;
  std::vector<Signature> signatures;
  std::string spf_domain, spf_scope, spf_result;
  bool operator==(const Facts&) const = default;
  PEN_FIELDS(source_ip, disposition, dkim, spf, override_type, override_comment, header_from, envelope_from, signatures,
             spf_domain, spf_scope, spf_result)
};

// smtpd → dmarcrpt
struct Result {
  Published published;
  Facts facts;
  PEN_FIELDS(published, facts)
};
struct Send {
  std::uint64_t request = 0;
  PEN_FIELDS(request)
};
// dmarcrpt → the asker
struct Sent {
  std::uint64_t request = 0;
  std::uint64_t reports = 0;  // that were queued
  PEN_FIELDS(request, reports)
};

using ToDmarcrpt = std::variant<Result, Send>;
using FromDmarcrpt = std::variant<Sent>;

}  // namespace pen::ipc::dmarc_report
