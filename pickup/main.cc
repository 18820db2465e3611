/// pickup: takes locally submitted mail into the queue. See man/pickup.8.
#include <fmt/format.h>

#include <memory>

#include "lib/base/log.h"
#include "lib/bounce/from_config.h"
#include "lib/intake/enqueue_client.h"
#include "lib/intake/from_settings.h"
#include "lib/mail/queue_id.h"
#include "lib/resolve/from_settings.h"
#include "lib/service/plan.h"
#include "lib/service/service.h"
#include "pickup/collector.h"
#include "pickup/from_settings.h"
#include "pickup/submit_server.h"

namespace {

using namespace pen;

constexpr std::size_t kThreads = 4;

struct Program {
  Program(service::Context& context, std::shared_ptr<const resolve::Resolve> resolver, intake::Settings settings,
          mail::DsnSettings notices, std::optional<submission::Rights> rights,
          std::shared_ptr<const milter::Settings> milters)
      : pool(context.loop(), kThreads),
        queue(context.loop(), context.queue_path(ipc::kQmgrSocket)),
        ids(context.loop().clock(), Random(secure_random_u64())),
        intake{.loop = context.loop(),
               .pool = pool,
               .queue = queue,
               .resolve = resolver,
               .settings = std::move(settings),
               .next_queue_id = [this] { return ids.next(); },
               .expansion_waits = intake::expansion_may_wait(resolver->options(), intake.settings.copies),
               .log_info = [](const std::string& line) { log::info("{}", line); },
               .log_warning = log::as_warning},
        filters(milters->other.empty() ? nullptr
                                       : std::make_unique<pickup::LocalFilters>(context.loop(), milters, intake)),
        collector(std::make_shared<pickup::Collector>(
            context.loop(), pool, intake,
            pickup::Collector::Options{
                .drop_directory = context.queue_path("maildrop"),
                .corrupt_directory = context.queue_path("corrupt"),
                .notices = std::move(notices),
                .notice = intake::own_mail(context.settings(), "bounce"),
                .detect_smtputf8_of_probes = intake::detects_smtputf8(context.settings(), "verify"),
                .size_limit = static_cast<std::uint64_t>(context.settings().message_size_limit),
                .rights = std::move(rights),
                .filters = filters.get()})) {}

  async::HandlerPool pool;
  intake::EnqueueClient queue;
  mail::QueueIdGenerator ids;
  intake::Intake intake;
  std::unique_ptr<pickup::LocalFilters> filters;  // nullptr: non_smtpd_milters is empty
  std::shared_ptr<pickup::Collector> collector;
  std::shared_ptr<pickup::SubmitServer> submissions;
};

/// A connection is the message: pendrop has left something.
async::Task<void> woken(std::shared_ptr<Program> program, async::Listener::Accepted accepted) {
  program->collector->wake();
  accepted.stream.close();
  co_return;
}

/// Whether the connection came to the socket where mail itself is handed over.
bool brings_mail(const async::Listener::Accepted& accepted) {
  const auto at = async::local_address(accepted.stream.fd());
  return at && at->path.ends_with(std::string("/") + std::string(service::kSubmitSocket));
}

Result<intake::Settings> intake_settings(const config::Settings& s) {
  PEN_TRY_ASSIGN(auto out, intake::from_settings(s));
  out.message_size_limit = 0;  // the collector keeps it: a notice about a message may be larger
  out.detect_smtputf8 = intake::detects_smtputf8(s, "sendmail");
  for (const auto& warning : out.warnings) log::warning("{}", warning);
  for (const auto& option : intake::receive_steps(s.receive_override_options).unknown)
    log::warning("receive_override_options: unknown option {}", option);
  return out;
}

Result<service::Hooks> start(service::Context& context) {
  PEN_TRY_ASSIGN(auto resolver, resolve::Resolve::open(resolve::from_settings(context.settings())));
  for (const auto& problem : resolver->problems()) log::warning("{}", map::advice(problem));
  PEN_TRY_ASSIGN(auto settings, intake_settings(context.settings()));
  if (settings.checks) {
    for (const auto& problem : settings.checks->problems()) log::warning("{}", map::advice(problem));
    if (const auto why = settings.checks->slower_because(); !why.empty()) log::info("{}", why);
  }
  if (resolver->canonical_blocking())
    log::warning("canonical tables that ask another process do not see addresses in headers");
  auto notices = bounce::notice_form(context.config());
  if (!notices.problem.empty()) log::warning("{}", notices.problem);
  std::optional<submission::Rights> rights;
  if (const auto wanted = pickup::rights_of(context.settings()); !wanted.everybody()) {
    PEN_TRY_ASSIGN(rights, submission::Rights::open(wanted));
  }
  PEN_TRY_ASSIGN(auto milters, milter::Settings::read(context.settings(),
                                                      {.default_type = context.settings().default_database_type}));
  auto program = std::make_shared<Program>(context, std::move(resolver), std::move(settings),
                                           std::move(notices.settings), std::move(rights), std::move(milters));
  program->submissions = std::make_shared<pickup::SubmitServer>(
      context.loop(), program->pool,
      pickup::SubmitServer::Options{
          .drop_directory = context.queue_path("maildrop"),
          .size_limit = static_cast<std::uint64_t>(context.settings().message_size_limit),
          .refusal = [collector = program->collector](uid_t uid,
                                                      std::string sender) { return collector->refusal(uid, sender); },
          .next_id = [program] { return program->ids.next(); },
          .taken = [collector = program->collector] { collector->wake(); }});
  program->queue.start();
  context.sessions().spawn("collector", pickup::Collector::run(program->collector, &context.draining()));
  context.serve([program](async::Listener::Accepted accepted) {
    if (brings_mail(accepted)) return pickup::SubmitServer::serve(program->submissions, std::move(accepted.stream));
    return woken(program, std::move(accepted));
  });
  return service::Hooks{.status =
                            [program] {
                              const auto& c = program->collector->counts();
                              std::vector<std::string> lines{
                                  fmt::format("taken {}, put off {}, set aside {}, of these returned {}, probes {}",
                                              c.taken, c.put_off, c.set_aside, c.returned, c.probes)};
                              lines.push_back(fmt::format(
                                  "by socket: taken {}, refused {}, open {}", program->submissions->counts().taken,
                                  program->submissions->counts().refused, program->submissions->open()));
                              if (program->filters)
                                for (auto& line : program->filters->status()) lines.push_back(std::move(line));
                              return lines;
                            },
                        .wakeup = [program] { program->collector->wake(); }};
}

}  // namespace

int main(int argc, char** argv) {
  return pen::service::run(argc, argv, {.name = "pickup", .summary = "takes locally submitted mail into the queue"},
                           start);
}
