#pragma once
/// Failures of TLS before there is a connection, for the reports of RFC 8460: faults in a domain's DNS and policy host.
///
/// Use:     if (auto attempt = dane_failure(hop, host, level, set, decision)) reports->tell(*std::move(attempt));
/// Counts:  one for each look-up of a route, which serves all mail to the domain while it is valid. smtp counts
///          connections, including those without a policy because it could not be fetched.
/// Omitted: failed MX and address look-ups, because DNSSEC need not be the reason; faults that only we can see. Pure.
///          Thread: any. Source: RFC 8460 section 4.3.2.
#include <optional>
#include <string>

#include "lib/suite/ipc/tls_report.h"
#include "trivial-rewrite/dane.h"
#include "trivial-rewrite/sts.h"

namespace pen::rewrite {

/// A failure of one host. before: its level (dane or dane-only) before its records were known; after: the level they
/// led to.
std::optional<ipc::tls_report::Attempt> dane_failure(const NextHop& hop, const std::string& host, ipc::TlsLevel before,
                                                     const TlsaSet& set, const Decision& after);
/// A failure of one host; its policy domain has the state `applied`.
std::optional<ipc::tls_report::Attempt> sts_failure(const NextHop& hop, const std::string& host,
                                                    const mta_sts::Applied& applied);

}  // namespace pen::rewrite
