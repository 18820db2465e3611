/// The suppression list: recipients that are to be left alone (docs/suppression.md).
#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/base/metrics/metrics.h"
#include "lib/mail/address.h"
#include "lib/suite/suppression/client.h"
#include "lib/suite/suppression/words.h"
#include "smtpd/restrictions.h"

namespace pen::smtpd::restrictions {
async::Task<Answer> suppressed(Evaluation& e) {
  using Standing = ipc::suppression::Standing;
  const auto& s = e.policy.settings;
  // VRFY has no sender, and notices have an empty one, which the list does not stop.
  if (!s.suppression_list || e.tools.suppression == nullptr || !e.subject.sender || e.subject.sender->empty())
    co_return Answer::dunno;
  // A tenant in the header is known after the content: then the queue manager asks, before delivery.
  if (e.policy.tenants && !e.policy.tenants->field().empty()) co_return Answer::dunno;
  ipc::suppression::Ask question;
  question.sender = e.policy.resolve->rewrite(*e.subject.sender);
  question.recipient = e.policy.resolve->rewrite(*e.subject.recipient);
  const auto cls = co_await e.tools.tables.ask(
      [&e, &question] { return e.policy.resolve->class_of(mail::domain_part(question.recipient)); });
  if (!cls) {
    log::warning("{}", cls.error().message());
    co_return e.table_problem(*e.subject.recipient);
  }
  if (*cls != resolve::AddressClass::other && *cls != resolve::AddressClass::relay) co_return Answer::dunno;
  if (e.policy.tenants) {
    const mail::Client* told = e.subject.client->forwarded ? &e.subject.client->forwarded->client : nullptr;
    tenant::Clues clues{.login = {}, .sender = question.sender, .header = {}};
    if (told != nullptr && !told->address.empty())
      clues.login = told->sasl_username;
    else if (e.subject.client->login)
      clues.login = e.subject.client->login->username;
    auto name = co_await e.tools.tables.ask(
        [tenants = e.policy.tenants, clues = std::move(clues)] { return tenants->of(clues); });
    if (!name) {
      log::warning("{}", name.error().message());
      co_return e.table_problem(*e.subject.recipient);
    }
    question.tenant = *std::move(name);
  }
  const auto answer =
      co_await e.tools.suppression->ask(std::move(question), {.deadline = e.tools.loop.now() + s.smtpd_timeout});
  if (answer.standing == Standing::undecided) co_return e.table_problem(*e.subject.recipient);
  if (answer.standing != Standing::listed) co_return Answer::dunno;
  e.forget_deferral();
  const Answer refused =
      e.refuse(s.suppression_reject_code, "5.7.1", e.recipient_label(),
               fmt::format("on this server's suppression list: {}", suppression::in_words(answer.reason)));
  if (refused == Answer::reject) metrics::suppression_stopped.add(metrics::StoppedAt::rcpt);
  co_return refused;
}

}  // namespace pen::smtpd::restrictions
