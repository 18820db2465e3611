#include "smtpd/checks.h"

#include "lib/base/text.h"
#include "smtpd/restrictions.h"

namespace pen::smtpd {

using Answer = Evaluation::Answer;

async::Task<Evaluation::Answer> Checks::run_lists_before_recipient(bool with_sender) {
  if (!e_.policy.client.empty() && co_await e_.run(e_.policy.client, e_.client_name()) == Answer::reject)
    co_return Answer::reject;
  e_.forget_deferral();
  if (!e_.policy.helo.empty() && !e_.subject.client->helo.empty() &&
      co_await e_.run(e_.policy.helo, e_.helo_label()) == Answer::reject)
    co_return Answer::reject;
  e_.forget_deferral();
  if (!with_sender) co_return Answer::dunno;
  co_return co_await run_sender_list();
}

async::Task<Evaluation::Answer> Checks::run_sender_list() {
  if (!e_.policy.sender.empty() && co_await e_.run(e_.policy.sender, e_.sender_label()) == Answer::reject)
    co_return Answer::reject;
  Answer answer = Answer::dunno;
  if (e_.policy.settings.smtpd_reject_unlisted_sender && e_.subject.sender && !e_.discarded()) {
    e_.reason = metrics::Reason::sender;
    answer = co_await restrictions::unlisted(e_, *e_.subject.sender, e_.sender_label(), true);
  }
  e_.forget_deferral();
  co_return answer;
}

async::Task<Verdict> Checks::client() {
  if (e_.policy.settings.smtpd_delay_reject || e_.policy.client.empty()) co_return Verdict{};
  e_.subject.where = "CONNECT";
  co_return e_.finish(co_await e_.run(e_.policy.client, e_.client_name()));
}

async::Task<Verdict> Checks::helo() {
  if (e_.policy.settings.smtpd_delay_reject || e_.policy.helo.empty()) co_return Verdict{};
  co_return e_.finish(co_await e_.run(e_.policy.helo, e_.helo_label()));
}

async::Task<Verdict> Checks::sender() {
  e_.subject.where = "MAIL";
  if (e_.policy.settings.smtpd_delay_reject) co_return Verdict{};
  co_return e_.finish(co_await run_sender_list());
}

async::Task<Verdict> Checks::recipient() {
  const auto& s = e_.policy.settings;
  // Postmaster without a domain is accepted from anybody (RFC 5321 sections 2.3.5 and 4.5.1), as in Postfix.
  if (iequals(*e_.subject.recipient, "postmaster")) co_return Verdict{};
  restrictions::ask_ahead_of_recipient(e_);
  Answer answer = Answer::dunno;
  if (s.smtpd_delay_reject) answer = co_await run_lists_before_recipient(e_.subject.sender.has_value());
  e_.forget_deferral();  // what defers refusals from here on holds for both lists and for the checks behind them
  for (int i = 0; i < 2 && answer != Answer::reject; ++i) {
    const bool relay = (i == 0) == s.smtpd_relay_before_recipient_restrictions;
    const RestrictionList& list = relay ? e_.policy.relay : e_.policy.recipient;
    if (!list.empty()) answer = co_await e_.run(list, e_.recipient_label());
  }
  if (answer != Answer::reject && !e_.discarded()) {
    // It would be an unknown user later on, when its sender is nobody to tell.
    const auto original = e_.policy.resolve->original_sender(e_.policy.resolve->rewrite(*e_.subject.recipient));
    if (original && !*original)
      answer = e_.refuse(550, "5.1.1", e_.recipient_label(), "User unknown: SRS address " + original->error().message(),
                         mail::ErrorClass::bounce);
  }
  if (answer != Answer::reject && !e_.discarded() && s.smtpd_reject_unlisted_recipient &&
      e_.policy.unknown_recipient_checks) {
    e_.reason = metrics::Reason::unknown_user;
    answer = co_await restrictions::unlisted(e_, *e_.subject.recipient, e_.recipient_label(), false);
  }
  if (answer != Answer::reject && !e_.discarded() && s.suppression_list) answer = co_await restrictions::suppressed(e_);
  co_return e_.finish(answer);
}

void Checks::about_only_recipient() {
  if (!e_.subject.recipient && !e_.subject.only_recipient.empty())
    e_.subject.recipient = std::string(e_.subject.only_recipient);
}

async::Task<Verdict> Checks::data() {
  e_.subject.where = "DATA";
  about_only_recipient();
  if (e_.policy.data.empty()) co_return Verdict{};
  co_return e_.finish(co_await e_.run(e_.policy.data, {"DATA", "Data command"}));
}

async::Task<Verdict> Checks::etrn() {
  Answer answer = Answer::dunno;
  if (e_.policy.settings.smtpd_delay_reject) answer = co_await run_lists_before_recipient(false);
  if (answer != Answer::reject && !e_.policy.etrn.empty()) answer = co_await e_.run(e_.policy.etrn, e_.etrn_label());
  co_return e_.finish(answer);
}

async::Task<Verdict> Checks::author() {
  e_.subject.where = "END-OF-MESSAGE";
  about_only_recipient();
  co_return e_.finish(restrictions::author(e_));
}

async::Task<Verdict> Checks::end_of_data() {
  e_.subject.where = "END-OF-MESSAGE";
  e_.after_content = true;
  about_only_recipient();
  if (e_.policy.end_of_data.empty()) co_return Verdict{};
  co_return e_.finish(co_await e_.run(e_.policy.end_of_data, {"END-OF-MESSAGE", "End-of-data"}));
}

}  // namespace pen::smtpd
