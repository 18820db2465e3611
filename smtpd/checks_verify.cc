/// reject_unverified_sender and reject_unverified_recipient: refuse addresses that cannot be delivered to
/// (docs/address-verification.md).
#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/resolve/probe_sender.h"
#include "smtpd/checks.h"

namespace pen::smtpd {
namespace {

constexpr std::size_t kMostText = 250;  // of what another host said, in our reply; as Postfix

}  // namespace

bool Checks::sends_probes(std::string_view address) const {
  const auto& s = policy_.settings;
  if (address.empty()) return false;
  const WallTime now = tools_.loop.clock().wall_now();
  return resolve::probe_sender(s).accepts(address, now) ||
         iequals(address, s.double_bounce_sender + "@" + s.myhostname);
}

async::Task<Checks::Answer> Checks::reject_unverified_sender(const Restriction&, const Name&) {
  if (!subject_.sender || subject_.sender->empty()) co_return Answer::dunno;
  const auto& s = policy_.settings;
  const Verification how{s.unverified_sender_reject_code, s.unverified_sender_defer_code,
                         s.unverified_sender_reject_reason, s.unverified_sender_tempfail_action, "4.1.7"};
  co_return co_await unverified(*subject_.sender, sender_label(), how);
}

async::Task<Checks::Answer> Checks::reject_unverified_recipient(const Restriction&, const Name&) {
  if (!subject_.recipient) co_return Answer::dunno;
  const auto& s = policy_.settings;
  const Verification how{s.unverified_recipient_reject_code, s.unverified_recipient_defer_code,
                         s.unverified_recipient_reject_reason, s.unverified_recipient_tempfail_action, "4.1.1"};
  co_return co_await unverified(*subject_.recipient, recipient_label(), how);
}

Checks::Answer Checks::put_off(const Verification& how, std::int64_t code, const Name& name, std::string_view text) {
  const int reply = static_cast<int>(code);
  // With warn_if_reject there is nothing to keep for later, and the log is to have it.
  if (warn_ || how.tempfail == config::TempfailAction::defer) return refuse(reply, how.dsn, name, text);
  return refuse_if_permitted(reply, how.dsn, name, text);
}

async::Task<Checks::Answer> Checks::unverified(std::string given, Name name, Verification how) {
  // A host that probes us might be probed back, and would probe us back in turn.
  if (sends_probes(given) || (subject_.recipient && sends_probes(*subject_.recipient))) co_return Answer::dunno;
  const std::string address = policy_.resolve->rewrite(given);
  const auto& s = policy_.settings;
  std::optional<Verifier::Answer> found;
  if (tools_.verifier != nullptr)
    found = co_await tools_.verifier->ask(
        address, s.address_verify_poll_delay * (s.address_verify_poll_count - 1),
        {.deadline = tools_.loop.now() +
                     std::max(milliseconds(s.smtpd_timeout), s.address_verify_poll_delay * s.address_verify_poll_count),
         .cancel = tools_.stopping});
  if (!found) {
    log::warning("{} service failure", s.address_verify_service_name);
    co_return put_off(how, 450, name, "address verification problem");
  }
  if (found->state == Verifier::State::good) co_return Answer::dunno;
  const std::int64_t code = found->state == Verifier::State::bad ? how.reject_code : how.defer_code;
  if (code < 400) co_return Answer::dunno;
  const std::string why = printable(how.reason.empty() ? found->text : how.reason, kMostText);
  if (code < 500) co_return put_off(how, code, name, fmt::format("unverified address: {}", why));
  co_return refuse(static_cast<int>(code), how.dsn, name, fmt::format("undeliverable address: {}", why),
                   mail::ErrorClass::policy);
}

}  // namespace pen::smtpd
