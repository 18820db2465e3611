/// reject_unverified_sender and reject_unverified_recipient: refuse addresses that cannot be delivered to
/// (docs/address-verification.md).
#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/receive/resolve/probe_sender.h"
#include "smtpd/restrictions.h"

namespace pen::smtpd::restrictions {
namespace {

constexpr std::size_t kMostText = 250;  // of what another host said, in our reply; as Postfix

struct Verification {  // the settings of one of the two restrictions
  std::int64_t reject_code, defer_code;
  std::string_view reason;
  config::TempfailAction tempfail;
  std::string_view dsn;
};

Answer put_off(Evaluation& e, const Verification& how, std::int64_t code, const Name& name, std::string_view text) {
  const int reply = static_cast<int>(code);
  // With warn_if_reject there is nothing to keep for later, and the log is to have it.
  if (e.warn || how.tempfail == config::TempfailAction::defer) return e.refuse(reply, how.dsn, name, text);
  return e.refuse_if_permitted(reply, how.dsn, name, text);
}

[[gnu::noinline]] async::Task<Answer> unverified(Evaluation& e, std::string given, Name name, Verification how) {
  // A host that probes us might be probed back, and would probe us back in turn.
  if (sends_probes(e, given) || (e.subject.recipient && sends_probes(e, *e.subject.recipient))) co_return Answer::dunno;
  const std::string address = e.policy.resolve->rewrite(given);
  const auto& s = e.policy.settings;
  std::optional<Verifier::Answer> found;
  if (e.tools.verifier != nullptr)
    found = co_await e.tools.verifier->ask(
        address, s.address_verify_poll_delay * (s.address_verify_poll_count - 1),
        {.deadline = e.tools.loop.now() +
                     std::max(milliseconds(s.smtpd_timeout), s.address_verify_poll_delay * s.address_verify_poll_count),
         .cancel = e.tools.stopping});
  if (!found) {
    log::warning("{} service failure", s.address_verify_service_name);
    co_return put_off(e, how, 450, name, "address verification problem");
  }
  if (found->state == Verifier::State::good) co_return Answer::dunno;
  const std::int64_t code = found->state == Verifier::State::bad ? how.reject_code : how.defer_code;
  if (code < 400) co_return Answer::dunno;
  const std::string why = printable(how.reason.empty() ? found->text : how.reason, kMostText);
  if (code < 500) co_return put_off(e, how, code, name, fmt::format("unverified address: {}", why));
  co_return e.refuse(static_cast<int>(code), how.dsn, name, fmt::format("undeliverable address: {}", why),
                     mail::ErrorClass::policy);
}

}  // namespace

bool sends_probes(const Evaluation& e, std::string_view address) {
  const auto& s = e.policy.settings;
  if (address.empty()) return false;
  const WallTime now = e.tools.loop.clock().wall_now();
  return resolve::probe_sender(s).accepts(address, now) ||
         iequals(address, s.double_bounce_sender + "@" + s.myhostname);
}

async::Task<Answer> reject_unverified_sender(Evaluation& e, const Restriction&, const Name&) {
  if (!e.subject.sender || e.subject.sender->empty()) co_return Answer::dunno;
  const auto& s = e.policy.settings;
  const Verification how{s.unverified_sender_reject_code, s.unverified_sender_defer_code,
                         s.unverified_sender_reject_reason, s.unverified_sender_tempfail_action, "4.1.7"};
  co_return co_await unverified(e, *e.subject.sender, e.sender_label(), how);
}

async::Task<Answer> reject_unverified_recipient(Evaluation& e, const Restriction&, const Name&) {
  if (!e.subject.recipient) co_return Answer::dunno;
  const auto& s = e.policy.settings;
  const Verification how{s.unverified_recipient_reject_code, s.unverified_recipient_defer_code,
                         s.unverified_recipient_reject_reason, s.unverified_recipient_tempfail_action, "4.1.1"};
  co_return co_await unverified(e, *e.subject.recipient, e.recipient_label(), how);
}

}  // namespace pen::smtpd::restrictions
