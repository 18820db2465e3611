#include "trivial-rewrite/sts.h"

#include <fmt/chrono.h>

#include "lib/base/text.h"

namespace pen::rewrite {

using ipc::TlsLevel;

namespace {

std::string date(WallTime t) {
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(static_cast<std::time_t>(unix_seconds(t))));
}

/// "MTA-STS policy of example.org (enforce, id 2026, fetched 2026-11-22 05:40 UTC, ends 2026-11-29 05:40 UTC)".
std::string describe(const mta_sts::Applied& a) {
  return "MTA-STS policy of " + a.domain + " (" + std::string(mode_name(a.policy->mode)) + ", id " + a.id +
         ", fetched " + date(a.fetched) + ", ends " + date(a.fetched + a.policy->max_age) + ")";
}

}  // namespace

bool sts_may_decide(const Decision& decision, const NextHop& hop) {
  if (!hop.mx || decision.by_table || !decision.problem.empty()) return false;
  switch (decision.policy.level) {
    case TlsLevel::none:
    case TlsLevel::may:
    case TlsLevel::encrypt:
    case TlsLevel::verify:
      return true;
    case TlsLevel::fingerprint:
    case TlsLevel::secure:
    case TlsLevel::dane:
    case TlsLevel::dane_only:
      return false;
  }
  return false;
}

std::string apply_sts(Decision& decision, const std::string& host, const mta_sts::Applied& applied,
                      const StsOptions& options) {
  if (!applied.policy) {
    // A fault of ours takes no protection away that the domain may ask for.
    if (applied.outcome == mta_sts::FetchOutcome::no_authorities) {
      decision.dsn = "4.3.5";
      decision.problem =
          "the MTA-STS policy of " + applied.domain +
          " cannot be fetched without the authorities of smtp_mta_sts_CAfile: " + printable(applied.why, 200);
      return {};
    }
    if (applied.outcome != mta_sts::FetchOutcome::ok)
      decision.rule +=
          "; the MTA-STS policy of " + applied.domain + " could not be fetched: " + printable(applied.why, 200);
    return {};
  }
  const mta_sts::Policy& policy = *applied.policy;
  if (policy.mode == mta_sts::Mode::none) return {};
  const bool named = policy.names_host(host);
  if (policy.mode == mta_sts::Mode::testing) {
    decision.rule += "; " + describe(applied);
    if (named) {
      // The certificate is otherwise not checked: check it, and report its faults.
      ipc::TlsPolicy& tls = decision.policy;
      if (tls.level != TlsLevel::may && tls.level != TlsLevel::encrypt) return {};
      tls.sts = ipc::StsMode::testing;
      tls.match = {host};
      tls.servername = host;
      if (!options.ca_file.empty()) tls.trust_anchors = {options.ca_file};
      return {};
    }
    decision.rule += " does not name host " + host;
    return "MTA-STS policy of " + applied.domain + " (testing): host " + host + " is none of those that it names (" +
           printable(join(policy.mx), 300) + "); if it were enforced mail would not go there";
  }
  decision.rule = describe(applied);
  if (!named) {
    decision.dsn = "4.7.5";
    decision.problem = "host " + host + " is not one that the MTA-STS policy of " + applied.domain + " (enforce, id " +
                       applied.id + ") names";
    return {};
  }
  ipc::TlsPolicy& tls = decision.policy;
  tls.level = TlsLevel::secure;
  tls.sts = ipc::StsMode::enforce;
  tls.match = {host};
  tls.servername = host;  // section 7.1: the name of the MX host
  if (!options.ca_file.empty()) tls.trust_anchors = {options.ca_file};
  tls.protocols = options.protocols;
  return {};
}

}  // namespace pen::rewrite
