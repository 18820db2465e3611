/// reject_spf_fail and its like, reject_dmarc, and what the settings do with mail that its author's domain disowns.
#include <fmt/format.h>

#include "smtpd/authentication.h"
#include "smtpd/checks.h"

namespace pen::smtpd {
namespace {

// RFC 7372 section 3
constexpr std::string_view kSpfFailed = "5.7.23", kSpfError = "5.7.24", kSeveralFailed = "5.7.26";

std::string why_disowned(const dmarc::Outcome& outcome) {
  if (outcome.disposition > outcome.policy) return outcome.reason;  // nobody's policy
  return fmt::format("no SPF or DKIM result of {}, whose policy is {}", outcome.from,
                     dmarc::policy_word(outcome.policy));
}

}  // namespace

async::Task<Checks::Answer> Checks::refuse_by_spf(std::string_view restriction, spf::Verdict verdict) {
  if (!policy_.authentication.spf) co_return server_error(fmt::format("{} needs spf_verify = yes", restriction));
  const std::shared_ptr<Authentication> checked = subject_.authentication;
  if (!checked || !checked->asks_spf()) co_return Answer::dunno;
  const spf::Outcome& found = *co_await checked->spf();
  if (found.verdict != verdict) co_return Answer::dunno;
  const Name name = checked->about_helo() ? helo_label() : Name{checked->sender(), "Sender address"};
  const auto code = static_cast<int>(policy_.settings.spf_reject_code);
  const std::string& address = subject_.client->peer.address;
  switch (verdict) {
    case spf::Verdict::temperror:
      co_return refuse(451, kSpfError, name, "SPF cannot be checked now: " + found.reason);
    case spf::Verdict::permerror:
      co_return refuse(code, kSpfError, name, fmt::format("SPF of {}: {}", found.domain, found.reason));
    default:
      break;
  }
  std::string text = fmt::format("SPF {}: {} may not send for {}", spf::verdict_word(verdict), address, found.domain);
  // Anybody can write such a text: the reader must know its author.
  if (!found.explanation.empty()) text += fmt::format("; {} explains: {}", found.domain, found.explanation);
  co_return refuse(code, kSpfFailed, name, text);
}

async::Task<Checks::Answer> Checks::reject_spf_fail(const Restriction& r, const Name&) {
  return refuse_by_spf(r.name, spf::Verdict::fail);
}
async::Task<Checks::Answer> Checks::reject_spf_softfail(const Restriction& r, const Name&) {
  return refuse_by_spf(r.name, spf::Verdict::softfail);
}
async::Task<Checks::Answer> Checks::reject_spf_permerror(const Restriction& r, const Name&) {
  return refuse_by_spf(r.name, spf::Verdict::permerror);
}
async::Task<Checks::Answer> Checks::defer_spf_temperror(const Restriction& r, const Name&) {
  return refuse_by_spf(r.name, spf::Verdict::temperror);
}

Checks::Answer Checks::refuse_by_dmarc(const dmarc::Outcome& outcome) {
  return refuse(static_cast<int>(policy_.settings.dmarc_reject_code), kSeveralFailed, {outcome.from, "From address"},
                "DMARC: " + why_disowned(outcome));
}

Checks::Answer Checks::defer_by_dmarc(const dmarc::Outcome& outcome) {
  return refuse(451, kSeveralFailed, {outcome.from, "From address"},
                "DMARC cannot be checked now: no answer from DNS about a name in this message");
}

Checks::Answer Checks::reject_dmarc(const Restriction& r, const Name&) {
  if (!policy_.authentication.dmarc) return server_error(r.name + " needs dmarc_verify = yes");
  if (!after_content_) return server_error(r.name + " can only stand in smtpd_end_of_data_restrictions");
  const dmarc::Outcome* found = subject_.authentication ? subject_.authentication->dmarc() : nullptr;
  if (!found) return Answer::dunno;
  if (found->disposition == dmarc::Policy::reject) return refuse_by_dmarc(*found);
  return found->withheld == dmarc::Policy::reject ? defer_by_dmarc(*found) : Answer::dunno;
}

async::Task<Verdict> Checks::author() {
  using Action = AuthenticationPolicy::Action;
  subject_.where = "END-OF-MESSAGE";
  about_only_recipient();
  const dmarc::Outcome& found = *subject_.authentication->dmarc();
  const AuthenticationPolicy& actions = policy_.authentication;
  const auto action_for = [&](dmarc::Policy policy) {
    if (policy == dmarc::Policy::none) return Action::none;
    return policy == dmarc::Policy::reject ? actions.reject : actions.quarantine;
  };
  const Action action = action_for(found.disposition);
  if (action == Action::reject) co_return finish(refuse_by_dmarc(found));
  // The author of a message may choose servers that never answer: it waits where it would not pass without them.
  if (found.withheld > found.disposition && action_for(found.withheld) != Action::none)
    co_return finish(defer_by_dmarc(found));
  if (action == Action::hold) {
    log_line("hold", fmt::format("<{}>: DMARC: {}", found.from, why_disowned(found)));
    effects_.hold = true;
  }
  co_return finish(Answer::dunno);
}

}  // namespace pen::smtpd
