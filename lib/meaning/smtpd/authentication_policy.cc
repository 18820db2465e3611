#include "lib/meaning/smtpd/authentication_policy.h"

#include "lib/base/text.h"

namespace pen::smtpd {
namespace {

using Action = AuthenticationPolicy::Action;

Result<Action> action_of(const std::string& word, const char* setting) {
  if (word == "none") return Action::none;
  if (word == "hold") return Action::hold;
  if (word == "reject") return Action::reject;
  return fail(AuthenticationError::bad_action, std::string(setting) + " = " + printable(word, 60));
}

}  // namespace

std::string_view describe(AuthenticationError e) {
  switch (e) {
    case AuthenticationError::bad_action:
      return "must be none, hold or reject";
    case AuthenticationError::waits:
      return "a table that another process serves cannot be used here";
  }
  return "unknown";
}

Result<AuthenticationPolicy> AuthenticationPolicy::read(const config::Settings& s,
                                                        const map::MatchList::Options& options) {
  AuthenticationPolicy out;
  out.dmarc = s.dmarc_verify;
  // The policy of a domain is about what the two others find.
  out.spf = s.spf_verify || out.dmarc;
  out.dkim = s.dkim_verify || out.dmarc;
  PEN_TRY_ASSIGN(out.quarantine, action_of(s.dmarc_quarantine_action, "dmarc_quarantine_action"));
  PEN_TRY_ASSIGN(out.reject, action_of(s.dmarc_reject_action, "dmarc_reject_action"));
  map::MatchList::Options like_mynetworks = options;  // which it is by default
  like_mynetworks.open.setting = "authentication_results_exempt_clients";
  like_mynetworks.keep_faulty = true;
  auto exempt =
      map::MatchList::open(map::MatchList::Kind::host, join(s.authentication_results_exempt_clients), like_mynetworks);
  if (!exempt) return fail(std::move(exempt).error().within("authentication_results_exempt_clients"));
  out.exempt = *std::move(exempt);
  if (!s.arc_seal_key.empty()) {
    map::MatchList::Options of_domains = options;
    of_domains.open.setting = "arc_seal_domains";
    auto sealed = map::MatchList::open(map::MatchList::Kind::domain, join(s.arc_seal_domains), of_domains);
    if (!sealed) return fail(std::move(sealed).error().within("arc_seal_domains"));
    if (sealed->blocking()) return fail(AuthenticationError::waits, "arc_seal_domains");
    out.sealed_domains = *std::move(sealed);
    out.seals_all = !s.arc_seal_domains.empty() && s.arc_seal_domains.front() == "static:all";
  }
  if (!out.dmarc || s.dmarc_public_suffix_file.empty()) return out;
  auto suffixes = dmarc::Suffixes::read(s.dmarc_public_suffix_file);
  if (!suffixes) return fail(std::move(suffixes).error().within("dmarc_public_suffix_file"));
  out.suffixes = *std::move(suffixes);
  return out;
}

}  // namespace pen::smtpd
