#include "pipe/agent.h"

#include "lib/send/mailbox/accounts.h"

namespace pen::pipes {
namespace {

/// Blocks until the command has ended; the answer for all of its recipients.
mail::DeliveryStatus run(const Rules& rules, const delivery::Incoming& message,
                         const std::vector<mail::Recipient>& recipients, WallTime now) {
  auto become = mailbox::rights_for(rules.identity);
  if (!become) return mail::make_status(mail::Action::deferred, "4.3.5", become.error().context());
  auto work = work_for(rules, message, recipients, now);
  work.become = *std::move(become);
  const bool probe = mail::is_probe(message.envelope.purpose);
  work.only_look = probe;
  auto status = mailbox::deliver_in_child(std::move(work), message.body, rules.time_limit, message.ending.get()).status;
  if (status.action == mail::Action::delivered && !probe && !rules.options.final_delivery)
    status.action = mail::Action::relayed;
  return status;
}

}  // namespace

async::Task<std::vector<mail::DeliveryStatus>> Agent::deliver(Message message,
                                                              std::vector<mail::Recipient> recipients) {
  std::vector<mail::DeliveryStatus> answers(recipients.size());
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < recipients.size(); ++i) {
    if (auto no = objection(*rules_, *message, recipients[i]))
      answers[i] = *std::move(no);
    else
      wanted.push_back(i);
  }
  const std::size_t step = rules_->options.one_by_one() ? 1 : wanted.size();
  for (std::size_t at = 0; at < wanted.size(); at += step) {
    std::vector<mail::Recipient> group;
    for (std::size_t i = at; i < at + step; ++i) group.push_back(recipients[wanted[i]]);
    auto work = [r = rules_, message, group, now = clock_.wall_now()] { return run(*r, *message, group, now); };
    const auto status = co_await pool_.run(std::move(work));
    for (std::size_t i = at; i < at + step; ++i) answers[wanted[i]] = status;
  }
  co_return answers;
}

}  // namespace pen::pipes
