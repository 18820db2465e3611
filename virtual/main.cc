/// virtual: delivery into mailboxes of users without an account. See man/virtual.8.
#include <memory>

#include "lib/base/log.h"
#include "lib/send/delivery/program.h"
#include "lib/send/mailbox/nursery.h"
#include "lib/send/mailbox/start_helper.h"
#include "lib/suite/service/service.h"
#include "virtual/agent.h"
#include "virtual/from_config.h"

namespace {

using namespace pen;

constexpr std::size_t kMaxThreads = 64;  // one per delivery in hand; each waits for a child process

struct Program {
  Program(service::Context& context, virtuals::Rules rules)
      : pool(context.loop(), std::min(context.limit(), kMaxThreads)),
        agent(context.loop(), pool, std::move(rules), random) {}
  Random random{secure_random_u64()};
  async::HandlerPool pool;
  virtuals::Agent agent;
};

Result<void> start_helper(const config::Config& config, const service::Arguments& arguments,
                          const service::Owners& owners, int helper) {
  const auto& s = config.settings();
  mailbox::Policy policy;
  policy.service = mailbox::Policy::Service::mailboxes;
  policy.round = {.base = s.virtual_mailbox_base, .lowest = static_cast<uid_t>(s.virtual_minimum_uid)};
  mailbox::keep_mail_accounts(s, owners, policy.round.kept_uids, policy.round.kept_gids);
  mailbox::keep_wide_groups(policy.round.kept_gids);
  mailbox::keep_wide_groups(policy.kept_gids);
  return mailbox::start_helper(std::move(policy), config, arguments, owners, helper);
}

constexpr const char* kFilter = "virtual_delivery_status_filter";

Result<void> look(service::Context& context) {
  const config::Settings& s = context.settings();
  PEN_TRY(virtuals::rules_from(s));
  PEN_TRY(delivery::open_filter(s.virtual_delivery_status_filter, kFilter, s.default_database_type));
  return {};
}

Result<service::Hooks> start(service::Context& context) {
  PEN_TRY_ASSIGN(auto rules, virtuals::rules_from(context.settings()));
  if (mailbox::Nursery::instance().becomes()) {
    mailbox::keep_mail_accounts(context.settings(), context.owners(), rules.kept_uids, rules.kept_gids);
    mailbox::keep_wide_groups(rules.kept_gids);
  }
  for (const auto* maps : {&rules.mailboxes, &rules.uids, &rules.gids})
    for (const auto& problem : maps->problems()) log::warning("{}", map::advice(problem));
  auto program = std::make_shared<Program>(context, std::move(rules));
  return delivery::serve_slots(context, {.files = program->pool,
                                         .deliver =
                                             [program](auto message, auto recipient) {
                                               return program->agent.deliver(std::move(message), std::move(recipient));
                                             },
                                         .counted_as = metrics::Agent::virtual_,
                                         .filter = context.settings().virtual_delivery_status_filter,
                                         .filter_setting = kFilter});
}

}  // namespace

int main(int argc, char** argv) {
  return pen::service::run(argc, argv,
                           {.name = "virtual",
                            .summary = "delivers into mailboxes of users without an account",
                            .look = look,
                            .start_helper = start_helper},
                           start);
}
