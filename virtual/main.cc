/// virtual: delivery into mailboxes of users without an account. See man/virtual.8.
#include <memory>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mailbox/limits.h"
#include "lib/mailbox/nursery.h"
#include "lib/mailbox/slots.h"
#include "lib/service/conversations.h"
#include "virtual/agent.h"

namespace {

using namespace pen;

constexpr std::size_t kMaxThreads = 64;  // one per delivery in hand; each waits for a child process

Result<virtuals::Rules> read_rules(service::Context& context) {
  const config::Settings& s = context.settings();
  map::OpenOptions options;
  options.default_type = s.default_database_type;
  // Every value here is a path or an identity, and the keys are strangers': none may choose for itself.
  options.substitute = false;
  options.served = false;
  virtuals::Rules rules;
  rules.myhostname = s.myhostname;
  rules.delimiters = s.recipient_delimiter;
  rules.base = s.virtual_mailbox_base;
  PEN_TRY_ASSIGN(rules.mailboxes, map::MapList::open(join(s.virtual_mailbox_maps), options));
  PEN_TRY_ASSIGN(rules.uids, map::MapList::open(join(s.virtual_uid_maps), options));
  PEN_TRY_ASSIGN(rules.gids, map::MapList::open(join(s.virtual_gid_maps), options));
  for (const auto* maps : {&rules.mailboxes, &rules.uids, &rules.gids})
    for (const auto& problem : maps->problems()) log::warning("{}", map::advice(problem));
  rules.minimum_uid = static_cast<unsigned>(s.virtual_minimum_uid);
  rules.mailbox_limit = static_cast<std::uint64_t>(s.virtual_mailbox_limit);
  PEN_TRY(mailbox::check_limit("virtual_mailbox_limit", rules.mailbox_limit,
                               static_cast<std::uint64_t>(s.message_size_limit)));
  PEN_TRY_ASSIGN(rules.lock, mailbox::parse_lock_rules(join(s.virtual_mailbox_lock)));
  rules.lock.attempts = static_cast<unsigned>(s.deliver_lock_attempts);
  rules.lock.delay = std::chrono::duration_cast<seconds>(s.deliver_lock_delay);
  rules.lock.stale = std::chrono::duration_cast<seconds>(s.stale_lock_time);
  rules.strict_ownership = s.strict_mailbox_ownership;
  rules.time_limit = std::chrono::duration_cast<seconds>(s.command_time_limit);
  return rules;
}

struct Server {
  Server(service::Context& context, virtuals::Rules rules)
      : random(secure_random_u64()),
        pool(context.loop(), std::min(context.limit(), kMaxThreads)),
        agent(context.loop(), pool, std::move(rules), random),
        environment(std::make_shared<mailbox::SlotEnvironment>(
            mailbox::SlotEnvironment{.loop = context.loop(),
                                     .pool = pool,
                                     .relay = context.service(),
                                     .limit = context.limit(),
                                     .deliver = [this](auto message, auto recipient) {
                                       return agent.deliver(std::move(message), std::move(recipient));
                                     }})) {
    environment->draining = &context.draining();
  }
  Random random;
  async::HandlerPool pool;
  virtuals::Agent agent;
  std::shared_ptr<mailbox::SlotEnvironment> environment;
};

Result<service::Hooks> start(service::Context& context) {
  PEN_TRY_ASSIGN(auto rules, read_rules(context));
  auto server = std::make_shared<Server>(context, std::move(rules));
  PEN_TRY_ASSIGN(server->environment->filter,
                 mailbox::open_status_filter(context.settings().virtual_delivery_status_filter,
                                             context.settings().default_database_type));
  service::serve_conversations(context, {{ipc::delivery::kName, [server](ipc::Opening o) {
                                            return mailbox::serve_slots(server->environment,
                                                                        mailbox::SlotChannel(std::move(o)));
                                          }}});
  return service::Hooks{.status = [server] { return mailbox::status_lines(*server->environment); }};
}

}  // namespace

int main(int argc, char** argv) {
  pen::mailbox::Nursery::start_early();
  return pen::service::run(
      argc, argv,
      {.name = "virtual", .summary = "delivers into mailboxes of users without an account", .keep_privileges = true},
      start);
}
