/// pipe: delivery by commands, as master.cf names them. See man/pipe.8.
#include <memory>
#include <optional>

#include "lib/send/delivery/program.h"
#include "lib/send/mailbox/start_helper.h"
#include "lib/suite/service/service.h"
#include "pipe/agent.h"
#include "pipe/from_config.h"

namespace {

using namespace pen;

constexpr std::size_t kMaxThreads = 64;  // one per command that runs

struct Program {
  Program(service::Context& context, pipes::Rules rules)
      : pool(context.loop(), std::min(context.limit(), kMaxThreads)),
        queue_pool(context.loop(), 4),
        agent(pool, context.loop().clock(), std::move(rules)) {}
  async::HandlerPool pool;
  // apart, so that commands that hang do not stop what only reads the spool
  async::HandlerPool queue_pool;
  pipes::Agent agent;
};

/// Made while the process has root's rights: what they permit is said then.
std::optional<pipes::Rules> rules;

Result<void> start_helper(const config::Config& config, const service::Arguments& arguments,
                          const service::Owners& owners, int helper) {
  PEN_TRY_ASSIGN(rules, pipes::rules_from(config, arguments.service, arguments.rest,
                                          mailbox::mail_accounts(config.settings(), owners)));
  return mailbox::start_helper(pipes::policy_for(*rules), config, arguments, owners, helper);
}

constexpr const char* kFilter = "pipe_delivery_status_filter";

/// penstock check looks at the command itself: many a master.cf has some that are not installed.
Result<void> look(service::Context& context) {
  const config::Settings& s = context.settings();
  PEN_TRY(delivery::open_filter(s.pipe_delivery_status_filter, kFilter, s.default_database_type));
  return {};
}

Result<service::Hooks> start(service::Context& context) {
  auto program = std::make_shared<Program>(context, *std::move(rules));
  return delivery::serve_slots(context, {.files = program->queue_pool,
                                         .deliver_together =
                                             [program](auto message, auto recipients) {
                                               return program->agent.deliver(std::move(message), std::move(recipients));
                                             },
                                         .counted_as = metrics::Agent::pipe,
                                         .filter = context.settings().pipe_delivery_status_filter,
                                         .filter_setting = kFilter});
}

}  // namespace

int main(int argc, char** argv) {
  return pen::service::run(
      argc, argv, {.name = "pipe", .summary = "delivers by commands", .look = look, .start_helper = start_helper},
      start);
}
