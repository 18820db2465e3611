/// local: delivery to the users of this host. See man/local.8.
#include <algorithm>
#include <memory>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/receive/resolve/from_settings.h"
#include "lib/send/delivery/program.h"
#include "lib/send/mailbox/nursery.h"
#include "lib/send/mailbox/start_helper.h"
#include "lib/suite/ipc/topology.h"
#include "lib/suite/service/service.h"
#include "local/agent.h"
#include "local/from_config.h"
#include "local/to_queue.h"

namespace {

using namespace pen;

// of the service's process limit: one per delivery in hand, each waits for a child process
constexpr std::size_t kMaxThreads = 128;
constexpr std::size_t kLookupThreads = 16;

struct Program {
  Program(service::Context& context, local::Rules rules, map::MapList aliases,
          std::shared_ptr<const resolve::Resolve> resolver)
      : deliveries(context.loop(), std::min(context.limit(), kMaxThreads)),
        lookups(context.loop(), kLookupThreads),
        queue_pool(context.loop(), 4),
        queue(context.loop(), queue_pool, std::move(resolver), context.settings(),
              context.queue_path(ipc::kQmgrSocket)),
        agent(context.loop(), lookups, deliveries, queue, std::move(rules), std::move(aliases), random) {}
  Random random{secure_random_u64()};
  // one for each: hanging home directories stop no alias that leads elsewhere, until all threads wait for them
  async::HandlerPool deliveries, lookups;
  // apart, so that hanging mailboxes do not stop what only reads and writes the spool
  async::HandlerPool queue_pool;
  local::ToQueue queue;
  local::Agent agent;
};

Result<void> start_helper(const config::Config& config, const service::Arguments& arguments,
                          const service::Owners& owners, int helper) {
  mailbox::Policy policy;
  policy.service = mailbox::Policy::Service::users;
  policy.spool_group = local::spool_group(config.settings().mail_spool_directory);
  return mailbox::start_helper(std::move(policy), config, arguments, owners, helper);
}

constexpr const char* kFilter = "local_delivery_status_filter";

/// What the settings say, and the tables that they name.
struct Reading {
  local::Rules rules;
  map::MapList aliases;
  std::shared_ptr<const resolve::Resolve> resolve;
};

Result<Reading> read(const config::Config& config) {
  const config::Settings& s = config.settings();
  Reading out;
  map::OpenOptions options;
  options.default_type = s.default_database_type;
  // Every value here is a destination, a command or a transport.
  options.substitute = false;
  options.served = false;
  PEN_TRY_ASSIGN(out.rules, local::rules_from(s, options));
  PEN_TRY_ASSIGN(out.aliases, map::MapList::open(join(s.alias_maps), options.of("alias_maps")));
  PEN_TRY_ASSIGN(out.resolve, resolve::Resolve::open(resolve::from_config(config)));
  return out;
}

Result<void> look(service::Context& context) {
  const config::Settings& s = context.settings();
  PEN_TRY(read(context.config()));
  PEN_TRY(delivery::open_filter(s.local_delivery_status_filter, kFilter, s.default_database_type));
  return {};
}

Result<service::Hooks> start(service::Context& context) {
  const config::Settings& s = context.settings();
  PEN_TRY_ASSIGN(auto reading, read(context.config()));
  auto& [rules, aliases, resolver] = reading;
  for (const auto& problem : aliases.problems()) log::warning("{}", map::advice(problem));
  for (const auto* maps : {&rules.mailbox_commands, &rules.mailbox_transports, &rules.fallback_transports})
    for (const auto& problem : maps->problems()) log::warning("{}", map::advice(problem));
  rules.ours = [by = reading.resolve, service = context.service()](const std::string& address) -> Result<bool> {
    PEN_TRY_ASSIGN(const auto domain, by->class_of(mail::domain_part(address)));
    if (domain != resolve::AddressClass::local) return false;
    PEN_TRY_ASSIGN(const auto route, by->route("", address));
    return route.transport == service;
  };
  if (mailbox::Nursery::instance().becomes()) {
    std::vector<gid_t> groups;
    mailbox::keep_mail_accounts(s, context.owners(), rules.kept_uids, groups);
  }
  auto program = std::make_shared<Program>(context, std::move(rules), std::move(aliases), std::move(resolver));
  program->queue.start();
  return delivery::serve_slots(context, {.files = program->queue_pool,
                                         .deliver =
                                             [program](auto message, auto recipient) {
                                               return program->agent.deliver(std::move(message), std::move(recipient));
                                             },
                                         .counted_as = metrics::Agent::local,
                                         .filter = s.local_delivery_status_filter,
                                         .filter_setting = kFilter});
}

}  // namespace

int main(int argc, char** argv) {
  return pen::service::run(
      argc, argv,
      {.name = "local", .summary = "delivers to the users of this host", .look = look, .start_helper = start_helper},
      start);
}
