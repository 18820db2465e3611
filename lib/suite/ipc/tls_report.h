#pragma once
/// Conversation "tls_report": smtp reports to tlsrpt how TLS with other hosts went, for the reports of RFC 8460.
///
/// Attempts are hints and are not answered: a program that cannot send one drops it. Send asks for the reports on what
/// has gathered, also of the day that is not over: for tests and for an administrator who wants to see one.
/// Source:  RFC 8460 section 4.3 (result types), 4.4 (what a report holds).
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/base/codec.h"

namespace pen::ipc::tls_report {

inline constexpr std::string_view kName = "tls_report";

enum class PolicyType : std::uint8_t { no_policy_found, tlsa, sts };
enum class ResultType : std::uint8_t {
  success,
  starttls_not_supported,
  certificate_host_mismatch,
  certificate_expired,
  certificate_not_trusted,
  validation_failure,
  tlsa_invalid,
  dnssec_invalid,
  dane_required,
  sts_policy_fetch_error,
  sts_policy_invalid,
  sts_webpki_invalid
};

// smtp → tlsrpt
/// One new connection that wanted TLS; or, with `announced`, none, but what a server of policies says of the domain's
/// policy (smtp_tls_policy_maps): it counts for its connections of the next seconds.
struct Attempt {
  std::string domain;  // the policy domain: what the mail is addressed to
  PolicyType policy = PolicyType::no_policy_found;
  std::vector<std::string> policy_strings;  // TLSA records, or the lines of an MTA-STS policy
  std::vector<std::string> mx_patterns;     // of an MTA-STS policy
  ResultType result = ResultType::success;
  std::string mx_host;       // the rest is set for failures only
  std::string receiving_ip;  // numeric, as sending_ip
  std::string sending_ip;
  std::string reason;           // for people
  std::uint32_t announced = 0;  // seconds
  std::string policy_domain;    // of what is announced: in place of `domain` in reports; empty: the same
  PEN_FIELDS(domain, policy, policy_strings, mx_patterns, result, mx_host, receiving_ip, sending_ip, reason, announced,
             policy_domain)
};
struct Send {
  std::uint64_t request = 0;
  PEN_FIELDS(request)
};
// tlsrpt → the asker
struct Sent {
  std::uint64_t request = 0;
  std::uint64_t reports = 0;  // that were handed over to be delivered
  PEN_FIELDS(request, reports)
};

using ToTlsrpt = std::variant<Attempt, Send>;
using FromTlsrpt = std::variant<Sent>;

}  // namespace pen::ipc::tls_report
