#pragma once
/// Failures of TLS before there is a connection, for the reports of RFC 8460: what a domain's DNS and policy host lack.
///
/// Use:     if (auto attempt = dane_failure(hop, host, level, set, decision)) reports->tell(*std::move(attempt));
/// Counts:  one for each look-up of a route, which serves all mail to the domain for as long as it holds; connections
///          are counted by smtp, mail that goes without a policy that could not be fetched among them.
/// Not told: MX and address look-ups that fail: nobody can say whether DNSSEC is the reason. What only we know to be
/// wrong. Pure. Thread: any. Source: RFC 8460 section 4.3.2.
#include <optional>
#include <string>

#include "lib/ipc/tls_report.h"
#include "trivial-rewrite/dane.h"
#include "trivial-rewrite/sts.h"

namespace pen::rewrite {

/// Of one host, at the level (dane or dane-only) that it had before its records were known; after: what they made of
/// it.
std::optional<ipc::tls_report::Attempt> dane_failure(const NextHop& hop, const std::string& host, ipc::TlsLevel before,
                                                     const TlsaSet& set, const Decision& after);
/// Of one host, of whose policy domain `applied` is known.
std::optional<ipc::tls_report::Attempt> sts_failure(const NextHop& hop, const std::string& host,
                                                    const mta_sts::Applied& applied);

}  // namespace pen::rewrite
