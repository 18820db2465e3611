#pragma once
/// Reads the TXT record of a domain that wants reports, such as "v=TLSRPTv1;
/// rua=mailto:tls@example.org,https://example.org/tls".
///
/// Use:     auto targets = read_records(texts_at("_smtp._tls." + domain));    // none: the domain wants no report
/// Rules:   RFC 8460 section 3. Records that do not begin with "v=TLSRPTv1;" are ignored; if there are several
///          others, none counts. Unknown fields and schemes are skipped.
/// Bounds:  kMaxTargets targets, each of at most kMaxTarget bytes. Pure.
#include <string>
#include <string_view>
#include <vector>

#include "lib/send/daily_reports/submitter.h"

namespace pen::tlsrpt {

inline constexpr std::size_t kMaxTargets = 10, kMaxTarget = 1000;

using daily_reports::Target;

/// texts: the TXT records, the strings of each joined.
std::vector<Target> read_records(const std::vector<std::string>& texts);

}  // namespace pen::tlsrpt
