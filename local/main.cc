/// local: delivery to the users of this host. See man/local.8.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/intake/derived.h"
#include "lib/intake/enqueue_client.h"
#include "lib/intake/from_settings.h"
#include "lib/mail/address.h"
#include "lib/mail/queue_id.h"
#include "lib/mailbox/environment.h"
#include "lib/mailbox/limits.h"
#include "lib/mailbox/slots.h"
#include "lib/resolve/from_settings.h"
#include "lib/service/service.h"
#include "local/agent.h"

namespace {

using namespace pen;

// of the service's process limit: one per delivery in hand, each waits for a child process
constexpr std::size_t kMaxThreads = 128;
constexpr std::size_t kLookupThreads = 16;

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

/// allow_mail_to_commands and the like; names the word that is none.
Result<local::Places> places(const std::vector<std::string>& words, std::string_view setting) {
  for (const auto& word : words)
    if (word != "alias" && word != "forward" && word != "include")
      return fail(config::ConfigError::bad_value,
                  fmt::format("{}: \"{}\" is none of alias, forward, include", setting,
                              printable(word, 40)));
  return local::Places{has(words, "alias"), has(words, "forward"), has(words, "include")};
}

Result<void> read_expansion(const config::Settings& s, local::ExpandRules& rules) {
  PEN_TRY_ASSIGN(rules.commands, places(s.allow_mail_to_commands, "allow_mail_to_commands"));
  PEN_TRY_ASSIGN(rules.files, places(s.allow_mail_to_files, "allow_mail_to_files"));
  const auto& onto = s.propagate_unmatched_extensions;
  rules.propagate = {has(onto, "alias"), has(onto, "forward"), has(onto, "include")};
  rules.expand_owner = s.expand_owner_alias;
  rules.reset_owner = s.reset_owner_alias;
  rules.limit = static_cast<std::size_t>(s.alias_destination_limit);
  return {};
}

void read_commands(const config::Settings& s, local::Rules& rules) {
  rules.mailbox_command = s.mailbox_command;
  rules.default_privs = s.default_privs;
  rules.command_filter = s.command_expansion_filter;
  rules.shell = s.local_command_shell;
  rules.directory = s.command_execution_directory;
  rules.directory_filter = s.execution_directory_expansion_filter;
  rules.exported = mailbox::exported_environment(s.export_environment);
  rules.time_limit = std::chrono::duration_cast<seconds>(s.command_time_limit);
}

Result<local::Rules> read_rules(const config::Settings& s, const map::OpenOptions& tables) {
  local::Rules rules;
  PEN_TRY(mailbox::check_limit("mailbox_size_limit",
                               static_cast<std::uint64_t>(s.mailbox_size_limit),
                               static_cast<std::uint64_t>(s.message_size_limit)));
  rules.myhostname = s.myhostname;
  rules.myorigin = s.myorigin;
  rules.delimiters = s.recipient_delimiter;
  PEN_TRY(read_expansion(s, rules.expansion));
  read_commands(s, rules);
  PEN_TRY_ASSIGN(rules.mailbox_commands, map::MapList::open(join(s.mailbox_command_maps), tables));
  rules.home_mailbox = s.home_mailbox;
  rules.mail_spool_directory = s.mail_spool_directory;
  PEN_TRY_ASSIGN(rules.mailbox_transports,
                 map::MapList::open(join(s.mailbox_transport_maps), tables));
  PEN_TRY_ASSIGN(rules.fallback_transports,
                 map::MapList::open(join(s.fallback_transport_maps), tables));
  rules.mailbox_transport = s.mailbox_transport;
  rules.fallback_transport = s.fallback_transport;
  rules.luser_relay = s.luser_relay;
  for (const auto path : split(s.forward_path)) rules.forward_paths.emplace_back(path);
  rules.forward_filter = s.forward_expansion_filter;
  rules.strict_ownership = s.strict_mailbox_ownership;
  rules.require_home = s.require_home_directory;
  rules.mailbox_size_limit = static_cast<std::uint64_t>(s.mailbox_size_limit);
  PEN_TRY_ASSIGN(rules.lock, mailbox::parse_lock_rules(join(s.mailbox_delivery_lock)));
  rules.lock.attempts = static_cast<unsigned>(s.deliver_lock_attempts);
  rules.lock.delay = std::chrono::duration_cast<seconds>(s.deliver_lock_delay);
  rules.lock.stale = std::chrono::duration_cast<seconds>(s.stale_lock_time);
  rules.mark_files = has(s.prepend_delivered_header, "file");
  rules.mark_forwards = has(s.prepend_delivered_header, "forward");
  rules.mark_commands = has(s.prepend_delivered_header, "command");
  return rules;
}

intake::Settings intake_settings(const config::Settings& s) {
  intake::Settings out;
  out.myhostname = s.myhostname;
  out.mail_name = s.mail_name;
  out.myorigin = s.myorigin;
  out.message_size_limit = 0;  // it was accepted once
  out.hopcount_limit = static_cast<unsigned>(s.hopcount_limit);
  out.detect_smtputf8 = intake::detects_smtputf8(s, "forward");
  return out;
}

/// Mail that goes on: into the queue again.
class ToQueue final : public mailbox::Requeue {
 public:
  explicit ToQueue(intake::Intake& intake) : intake_(intake) {}
  async::Task<Result<std::string>> requeue(std::shared_ptr<const mailbox::Incoming> message,
                                           mailbox::Successor successor) override {
    intake::Derived derived;
    derived.envelope = std::move(successor.envelope);
    derived.fields = std::move(successor.fields);
    derived.original = message->body;
    derived.original_bytes = message->body.size();
    const async::Until until{.deadline = intake_.loop.now() + intake_.settings.enqueue_timeout};
    co_return co_await intake::enqueue_derived(intake_, std::move(derived), until);
  }

 private:
  intake::Intake& intake_;
};

struct Server {
  Server(service::Context& context, local::Rules rules, map::MapList aliases,
         std::shared_ptr<const resolve::Resolve> resolver)
      : random(secure_random_u64()),
        deliveries(context.loop(), std::min(context.limit(), kMaxThreads)),
        lookups(context.loop(), kLookupThreads),
        queue_pool(context.loop(), 4),
        queue(std::make_shared<intake::EnqueueClient>(context.loop(),
                                                      context.queue_path(ipc::kQmgrSocket),
                                                      intake::EnqueueClient::Options{})),
        ids(context.loop().clock(), Random(secure_random_u64())),
        intake{.loop = context.loop(),
               .pool = queue_pool,
               .queue = *queue,
               .resolve = std::move(resolver),
               .settings = intake_settings(context.settings()),
               .next_queue_id = [this] { return ids.next(); }},
        requeue(intake),
        agent(context.loop(), lookups, deliveries, requeue, std::move(rules), std::move(aliases),
              random),
        environment(std::make_shared<mailbox::SlotEnvironment>(mailbox::SlotEnvironment{
            .loop = context.loop(),
            .pool = queue_pool,
            .relay = context.service(),
            .limit = context.limit(),
            .deliver = [this](auto message, auto recipient) {
              return agent.deliver(std::move(message), std::move(recipient));
            }})) {
    environment->draining = &context.draining();
  }
  Random random;
  // one for each: hanging home directories stop no alias that leads elsewhere, until all threads wait for them
  async::HandlerPool deliveries, lookups;
  // apart, so that hanging mailboxes do not stop what only reads and writes the spool
  async::HandlerPool queue_pool;
  std::shared_ptr<intake::EnqueueClient> queue;
  mail::QueueIdGenerator ids;
  intake::Intake intake;
  ToQueue requeue;
  local::Agent agent;
  std::shared_ptr<mailbox::SlotEnvironment> environment;
};

async::Task<void> session(std::shared_ptr<Server> server, ipc::AllowedPeers peers,
                          async::Listener::Accepted accepted) {
  co_await mailbox::serve_connection(server->environment, peers, std::move(accepted));
}

Result<service::Hooks> start(service::Context& context) {
  const config::Settings& s = context.settings();
  map::OpenOptions options;
  options.default_type = s.default_database_type;
  options.substitute = false;  // every value here is a destination, a command or a transport
  PEN_TRY_ASSIGN(auto rules, read_rules(s, options));
  PEN_TRY_ASSIGN(auto aliases, map::MapList::open(join(s.alias_maps), options));
  for (const auto& problem : aliases.problems()) log::warning("{}", map::advice(problem));
  for (const auto* maps :
       {&rules.mailbox_commands, &rules.mailbox_transports, &rules.fallback_transports})
    for (const auto& problem : maps->problems()) log::warning("{}", map::advice(problem));
  PEN_TRY_ASSIGN(auto resolver, resolve::Resolve::open(resolve::from_settings(s)));
  rules.ours = [resolver, service = context.service()](const std::string& address) -> Result<bool> {
    PEN_TRY_ASSIGN(const auto domain, resolver->class_of(mail::domain_part(address)));
    if (domain != resolve::AddressClass::local) return false;
    PEN_TRY_ASSIGN(const auto route, resolver->route("", address));
    return route.transport == service;
  };
  auto server =
      std::make_shared<Server>(context, std::move(rules), std::move(aliases), std::move(resolver));
  PEN_TRY_ASSIGN(server->environment->filter,
                 mailbox::open_status_filter(context.settings().local_delivery_status_filter,
                                             context.settings().default_database_type));
  context.loop().spawn("enqueue", intake::EnqueueClient::keep_connected(server->queue));
  const ipc::AllowedPeers peers{.mail_owner = context.owner().uid};
  context.serve([server, peers](async::Listener::Accepted accepted) {
    return session(server, peers, std::move(accepted));
  });
  return service::Hooks{.status = [server] { return mailbox::status_lines(*server->environment); }};
}

}  // namespace

int main(int argc, char** argv) {
  return pen::service::run(
      argc, argv,
      {.name = "local", .summary = "delivers to the users of this host", .keep_privileges = true},
      start);
}
