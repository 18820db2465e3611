#include "trivial-rewrite/tls_failures.h"

#include "lib/base/text.h"

namespace pen::rewrite {

using ipc::TlsLevel;
using ipc::tls_report::Attempt;
using ipc::tls_report::PolicyType;
using ipc::tls_report::ResultType;

namespace {

constexpr std::size_t kMaxReason = 300;

/// Reports go to domains that mail is addressed to, not to hosts that an administrator named.
std::optional<Attempt> attempt(const NextHop& hop, const std::string& host, PolicyType policy, ResultType result,
                               std::string_view reason) {
  if (!hop.mx) return std::nullopt;
  Attempt a;
  a.domain = to_lower(hop.host);
  a.policy = policy;
  a.result = result;
  a.mx_host = host;
  a.reason = printable(reason, kMaxReason);
  return a;
}

}  // namespace

std::optional<Attempt> dane_failure(const NextHop& hop, const std::string& host, TlsLevel before, const TlsaSet& set,
                                    const Decision& after) {
  using enum ResultType;
  const std::string& reason = after.problem.empty() ? after.rule : after.problem;
  switch (set.kind) {
    case TlsaSet::Kind::failed:
      return attempt(hop, host, PolicyType::tlsa, dnssec_invalid, reason);
    case TlsaSet::Kind::unusable:
      return attempt(hop, host, PolicyType::tlsa, tlsa_invalid, reason);
    case TlsaSet::Kind::none:
    case TlsaSet::Kind::usable:  // dane-only: the records are usable, but the MX records are not secure
      break;
  }
  if (before == TlsLevel::dane_only && !after.problem.empty())
    return attempt(hop, host, PolicyType::tlsa, dane_required, reason);
  return std::nullopt;
}

std::optional<Attempt> sts_failure(const NextHop& hop, const std::string& host, const mta_sts::Applied& applied) {
  using enum ResultType;
  if (applied.policy) {
    if (applied.policy->mode == mta_sts::Mode::none || applied.policy->names_host(host)) return std::nullopt;
    return attempt(hop, host, PolicyType::sts, validation_failure, "the policy does not name this host");
  }
  // The failure belongs to no connection and no MX host.
  switch (applied.outcome) {
    case mta_sts::FetchOutcome::ok:
    case mta_sts::FetchOutcome::no_authorities:  // mail waits, and the domain has done nothing wrong
      return std::nullopt;
    case mta_sts::FetchOutcome::fetch_failed:
      return attempt(hop, {}, PolicyType::sts, sts_policy_fetch_error, applied.why);
    case mta_sts::FetchOutcome::webpki_invalid:
      return attempt(hop, {}, PolicyType::sts, sts_webpki_invalid, applied.why);
    case mta_sts::FetchOutcome::policy_invalid:
      return attempt(hop, {}, PolicyType::sts, sts_policy_invalid, applied.why);
  }
  return std::nullopt;
}

}  // namespace pen::rewrite
