/// local: delivery to the users of this host. See man/local.8.
#include <algorithm>
#include <memory>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/intake/derived.h"
#include "lib/intake/enqueue_client.h"
#include "lib/intake/from_settings.h"
#include "lib/mail/address.h"
#include "lib/mail/queue_id.h"
#include "lib/mailbox/nursery.h"
#include "lib/mailbox/slots.h"
#include "lib/resolve/from_settings.h"
#include "lib/service/conversations.h"
#include "local/agent.h"
#include "local/from_config.h"

namespace {

using namespace pen;

// of the service's process limit: one per delivery in hand, each waits for a child process
constexpr std::size_t kMaxThreads = 128;
constexpr std::size_t kLookupThreads = 16;

intake::Settings intake_settings(const config::Settings& s) {
  intake::Settings out;
  out.myhostname = s.myhostname;
  out.mail_name = s.mail_name;
  out.myorigin = s.myorigin;
  out.message_size_limit = 0;  // it was accepted once
  out.original_recipient = s.enable_original_recipient;
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
        queue(std::make_shared<intake::EnqueueClient>(context.loop(), context.queue_path(ipc::kQmgrSocket),
                                                      intake::EnqueueClient::Options{})),
        ids(context.loop().clock(), Random(secure_random_u64())),
        intake{.loop = context.loop(),
               .pool = queue_pool,
               .queue = *queue,
               .resolve = std::move(resolver),
               .settings = intake_settings(context.settings()),
               .next_queue_id = [this] { return ids.next(); }},
        requeue(intake),
        agent(context.loop(), lookups, deliveries, requeue, std::move(rules), std::move(aliases), random),
        environment(std::make_shared<mailbox::SlotEnvironment>(
            mailbox::SlotEnvironment{.loop = context.loop(),
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

Result<service::Hooks> start(service::Context& context) {
  const config::Settings& s = context.settings();
  map::OpenOptions options;
  options.default_type = s.default_database_type;
  // Every value here is a destination, a command or a transport.
  options.substitute = false;
  options.served = false;
  PEN_TRY_ASSIGN(auto rules, local::rules_from(s, options));
  PEN_TRY_ASSIGN(auto aliases, map::MapList::open(join(s.alias_maps), options));
  for (const auto& problem : aliases.problems()) log::warning("{}", map::advice(problem));
  for (const auto* maps : {&rules.mailbox_commands, &rules.mailbox_transports, &rules.fallback_transports})
    for (const auto& problem : maps->problems()) log::warning("{}", map::advice(problem));
  PEN_TRY_ASSIGN(auto resolver, resolve::Resolve::open(resolve::from_settings(s)));
  rules.ours = [resolver, service = context.service()](const std::string& address) -> Result<bool> {
    PEN_TRY_ASSIGN(const auto domain, resolver->class_of(mail::domain_part(address)));
    if (domain != resolve::AddressClass::local) return false;
    PEN_TRY_ASSIGN(const auto route, resolver->route("", address));
    return route.transport == service;
  };
  auto server = std::make_shared<Server>(context, std::move(rules), std::move(aliases), std::move(resolver));
  PEN_TRY_ASSIGN(server->environment->filter,
                 mailbox::open_status_filter(context.settings().local_delivery_status_filter,
                                             context.settings().default_database_type));
  context.loop().spawn("enqueue", intake::EnqueueClient::keep_connected(server->queue));
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
      argc, argv, {.name = "local", .summary = "delivers to the users of this host", .keep_privileges = true}, start);
}
