/// The suppression list: recipients that are to be left alone (docs/suppression.md).
#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/mail/address.h"
#include "lib/metrics/metrics.h"
#include "lib/suppression/client.h"
#include "lib/suppression/words.h"
#include "smtpd/checks.h"

namespace pen::smtpd {

async::Task<Checks::Answer> Checks::suppressed() {
  using Standing = ipc::suppression::Standing;
  const auto& s = policy_.settings;
  // VRFY has no sender, and notices have an empty one, which the list does not stop.
  if (!s.suppression_list || tools_.suppression == nullptr || !subject_.sender || subject_.sender->empty())
    co_return Answer::dunno;
  // A tenant in the header is known after the content: then the queue manager asks, before delivery.
  if (policy_.tenants && !policy_.tenants->field().empty()) co_return Answer::dunno;
  ipc::suppression::Ask question;
  question.sender = policy_.resolve->rewrite(*subject_.sender);
  question.recipient = policy_.resolve->rewrite(*subject_.recipient);
  const auto cls = co_await tools_.tables.ask(
      [this, &question] { return policy_.resolve->class_of(mail::domain_part(question.recipient)); });
  if (!cls) {
    log::warning("{}", cls.error().message());
    co_return table_problem(*subject_.recipient);
  }
  if (*cls != resolve::AddressClass::other && *cls != resolve::AddressClass::relay) co_return Answer::dunno;
  if (policy_.tenants) {
    const mail::Client* told = subject_.client->forwarded ? &subject_.client->forwarded->client : nullptr;
    tenant::Clues clues{.login = {}, .sender = question.sender, .header = {}};
    if (told != nullptr && !told->address.empty())
      clues.login = told->sasl_username;
    else if (subject_.client->login)
      clues.login = subject_.client->login->username;
    auto name = co_await tools_.tables.ask(
        [tenants = policy_.tenants, clues = std::move(clues)] { return tenants->of(clues); });
    if (!name) {
      log::warning("{}", name.error().message());
      co_return table_problem(*subject_.recipient);
    }
    question.tenant = *std::move(name);
  }
  const auto answer =
      co_await tools_.suppression->ask(std::move(question), {.deadline = tools_.loop.now() + s.smtpd_timeout});
  if (answer.standing == Standing::undecided) co_return table_problem(*subject_.recipient);
  if (answer.standing != Standing::listed) co_return Answer::dunno;
  if_reject_.clear();
  const Answer refused =
      refuse(s.suppression_reject_code, "5.7.1", recipient_label(),
             fmt::format("on this server's suppression list: {}", suppression::in_words(answer.reason)));
  if (refused == Answer::reject) metrics::suppression_stopped.add(metrics::StoppedAt::rcpt);
  co_return refused;
}

}  // namespace pen::smtpd
