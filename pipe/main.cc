/// pipe: delivery by commands, as master.cf names them. See man/pipe.8.
#include <fmt/format.h>
#include <paths.h>

#include <cstdlib>
#include <memory>

#include "lib/base/text.h"
#include "lib/config/values.h"
#include "lib/mailbox/accounts.h"
#include "lib/mailbox/environment.h"
#include "lib/mailbox/nursery.h"
#include "lib/mailbox/slots.h"
#include "lib/service/conversations.h"
#include "pipe/identity.h"
#include "pipe/job.h"

namespace {

using namespace pen;
using Message = std::shared_ptr<const mailbox::Incoming>;

constexpr std::size_t kMaxThreads = 64;  // one per command that runs

auto wrong(std::string_view service, const std::string& why) {
  return fail(config::ConfigError::bad_value, fmt::format("master.cf: {}: {}", service, why));
}

Result<pipes::Rules> read_rules(const service::Context& context) {
  const config::Settings& s = context.settings();
  pipes::Rules rules;
  auto options = pipes::parse_options(context.arguments().rest);
  if (!options) return wrong(context.service(), options.error());
  rules.options = *std::move(options);
  if (!rules.options.root.empty() && ::geteuid() != 0)
    return wrong(context.service(), "chroot= needs a mail system that root has started");
  PEN_TRY_ASSIGN(rules.identity,
                 pipes::identity_of(rules.options, context.owner().uid, context.owner().gid, context.service()));
  rules.service = context.service();
  rules.delimiters = s.recipient_delimiter;
  rules.environment = mailbox::exported_environment(s.export_environment);
  rules.environment.emplace_back("PATH=" _PATH_DEFPATH);
  rules.allow_minus = s.allow_min_user;
  const auto limit = context.config().lookup_transport(context.service(), "time_limit");
  const auto time = config::parse_time(limit.value_or("1000s"), 's');
  if (!time || *time < seconds(1))
    return wrong(context.service(), context.service() + "_time_limit is no time above zero");
  rules.time_limit = std::chrono::duration_cast<seconds>(*time);
  return rules;
}

/// Blocks until the command has ended; the answer for all of its recipients.
mail::DeliveryStatus run(const pipes::Rules& rules, const mailbox::Incoming& message,
                         const std::vector<mail::Recipient>& recipients, WallTime now) {
  auto become = mailbox::rights_for(rules.identity);
  if (!become) return mail::make_status(mail::Action::deferred, "4.3.5", become.error().context());
  auto work = pipes::work_for(rules, message, recipients, now);
  work.become = *std::move(become);
  const bool probe = message.envelope.purpose == mail::Purpose::probe;
  work.only_look = probe;
  auto status = mailbox::deliver_in_child(std::move(work), message.body, rules.time_limit, message.ending.get()).status;
  if (status.action == mail::Action::delivered && !probe && !rules.options.final_delivery)
    status.action = mail::Action::relayed;
  return status;
}

struct Server {
  Server(service::Context& context, pipes::Rules given)
      : rules(std::make_shared<const pipes::Rules>(std::move(given))),
        clock(context.loop().clock()),
        pool(context.loop(), std::min(context.limit(), kMaxThreads)),
        queue_pool(context.loop(), 4),
        environment(std::make_shared<mailbox::SlotEnvironment>(
            mailbox::SlotEnvironment{.loop = context.loop(),
                                     .pool = queue_pool,
                                     .relay = context.service(),
                                     .limit = context.limit(),
                                     .deliver = {},
                                     .deliver_together = [this](auto message, auto recipients) {
                                       return deliver(std::move(message), std::move(recipients));
                                     }})) {
    environment->draining = &context.draining();
  }

  async::Task<std::vector<mail::DeliveryStatus>> deliver(Message message, std::vector<mail::Recipient> recipients) {
    std::vector<mail::DeliveryStatus> answers(recipients.size());
    std::vector<std::size_t> wanted;
    for (std::size_t i = 0; i < recipients.size(); ++i) {
      if (auto no = pipes::objection(*rules, *message, recipients[i]))
        answers[i] = *std::move(no);
      else
        wanted.push_back(i);
    }
    const std::size_t step = rules->options.one_by_one() ? 1 : wanted.size();
    for (std::size_t at = 0; at < wanted.size(); at += step) {
      std::vector<mail::Recipient> group;
      for (std::size_t i = at; i < at + step; ++i) group.push_back(recipients[wanted[i]]);
      auto work = [r = rules, message, group, now = clock.wall_now()] { return run(*r, *message, group, now); };
      const auto status = co_await pool.run(std::move(work));
      for (std::size_t i = at; i < at + step; ++i) answers[wanted[i]] = status;
    }
    co_return answers;
  }

  std::shared_ptr<const pipes::Rules> rules;
  const Clock& clock;
  async::HandlerPool pool;
  // apart, so that commands that hang do not stop what only reads the spool
  async::HandlerPool queue_pool;
  std::shared_ptr<mailbox::SlotEnvironment> environment;
};

Result<service::Hooks> start(service::Context& context) {
  PEN_TRY_ASSIGN(auto rules, read_rules(context));
  auto server = std::make_shared<Server>(context, std::move(rules));
  PEN_TRY_ASSIGN(server->environment->filter,
                 mailbox::open_status_filter(context.settings().pipe_delivery_status_filter,
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
  return pen::service::run(argc, argv, {.name = "pipe", .summary = "delivers by commands", .keep_privileges = true},
                           start);
}
