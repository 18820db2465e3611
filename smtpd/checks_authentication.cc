/// reject_spf_fail and its like, reject_dmarc, and what the settings do with mail that its author's domain disowns.
#include <fmt/format.h>

#include "smtpd/authentication.h"
#include "smtpd/restrictions.h"

namespace pen::smtpd::restrictions {
namespace {

// RFC 7372 section 3
constexpr std::string_view kSpfFailed = "5.7.23", kSpfError = "5.7.24", kSeveralFailed = "5.7.26";

std::string why_disowned(const dmarc::Outcome& outcome) {
  if (outcome.disposition > outcome.policy) return outcome.reason;  // nobody's policy
  return fmt::format("no SPF or DKIM result of {}, whose policy is {}", outcome.from,
                     dmarc::policy_word(outcome.policy));
}

/// Refuses if SPF has this result.
[[gnu::noinline]] async::Task<Answer> refuse_by_spf(Evaluation& e, std::string_view restriction, spf::Verdict verdict) {
  if (!e.policy.authentication.spf) co_return e.server_error(fmt::format("{} needs spf_verify = yes", restriction));
  const std::shared_ptr<Authentication> checked = e.subject.authentication;
  if (!checked || !checked->asks_spf()) co_return Answer::dunno;
  const spf::Outcome& found = *co_await checked->spf();
  if (found.verdict != verdict) co_return Answer::dunno;
  const Name name = checked->about_helo() ? e.helo_label() : Name{checked->sender(), "Sender address"};
  const auto code = static_cast<int>(e.policy.settings.spf_reject_code);
  const std::string& address = e.subject.client->peer.address;
  switch (verdict) {
    case spf::Verdict::temperror:
      co_return e.refuse(451, kSpfError, name, "SPF cannot be checked now: " + found.reason);
    case spf::Verdict::permerror:
      co_return e.refuse(code, kSpfError, name, fmt::format("SPF of {}: {}", found.domain, found.reason));
    default:
      break;
  }
  std::string text = fmt::format("SPF {}: {} may not send for {}", spf::verdict_word(verdict), address, found.domain);
  // Anybody can write such a text: the reader must know its author.
  if (!found.explanation.empty()) text += fmt::format("; {} explains: {}", found.domain, found.explanation);
  co_return e.refuse(code, kSpfFailed, name, text);
}

Answer refuse_by_dmarc(Evaluation& e, const dmarc::Outcome& outcome) {
  return e.refuse(static_cast<int>(e.policy.settings.dmarc_reject_code), kSeveralFailed, {outcome.from, "From address"},
                  "DMARC: " + why_disowned(outcome));
}

Answer defer_by_dmarc(Evaluation& e, const dmarc::Outcome& outcome) {
  return e.refuse(451, kSeveralFailed, {outcome.from, "From address"},
                  "DMARC cannot be checked now: no answer from DNS about a name in this message");
}

}  // namespace

async::Task<Answer> reject_spf_fail(Evaluation& e, const Restriction& r, const Name&) {
  return refuse_by_spf(e, r.name, spf::Verdict::fail);
}

async::Task<Answer> reject_spf_softfail(Evaluation& e, const Restriction& r, const Name&) {
  return refuse_by_spf(e, r.name, spf::Verdict::softfail);
}

async::Task<Answer> reject_spf_permerror(Evaluation& e, const Restriction& r, const Name&) {
  return refuse_by_spf(e, r.name, spf::Verdict::permerror);
}

async::Task<Answer> defer_spf_temperror(Evaluation& e, const Restriction& r, const Name&) {
  return refuse_by_spf(e, r.name, spf::Verdict::temperror);
}

Answer reject_dmarc(Evaluation& e, const Restriction& r, const Name&) {
  if (!e.policy.authentication.dmarc) return e.server_error(r.name + " needs dmarc_verify = yes");
  if (!e.after_content) return e.server_error(r.name + " can only stand in smtpd_end_of_data_restrictions");
  const dmarc::Outcome* found = e.subject.authentication ? e.subject.authentication->dmarc() : nullptr;
  if (!found) return Answer::dunno;
  if (found->disposition == dmarc::Policy::reject) return refuse_by_dmarc(e, *found);
  return found->withheld == dmarc::Policy::reject ? defer_by_dmarc(e, *found) : Answer::dunno;
}

Answer author(Evaluation& e) {
  using Action = AuthenticationPolicy::Action;
  const dmarc::Outcome& found = *e.subject.authentication->dmarc();
  const AuthenticationPolicy& actions = e.policy.authentication;
  const auto action_for = [&](dmarc::Policy policy) {
    if (policy == dmarc::Policy::none) return Action::none;
    return policy == dmarc::Policy::reject ? actions.reject : actions.quarantine;
  };
  const Action action = action_for(found.disposition);
  if (action == Action::reject) return refuse_by_dmarc(e, found);
  // The author of a message may choose servers that never answer: it waits where it would not pass without them.
  if (found.withheld > found.disposition && action_for(found.withheld) != Action::none) return defer_by_dmarc(e, found);
  if (action == Action::hold) {
    e.log_line("hold", fmt::format("<{}>: DMARC: {}", found.from, why_disowned(found)));
    e.effects.hold = true;
  }
  return Answer::dunno;
}

}  // namespace pen::smtpd::restrictions
