/// pickup: takes locally submitted mail into the queue. See man/pickup.8.
#include <fmt/format.h>

#include <memory>

#include "lib/base/log.h"
#include "lib/base/log_handlers.h"
#include "lib/base/text.h"
#include "lib/map/match_list.h"
#include "lib/meaning/bounce/from_config.h"
#include "lib/receive/intake/from_settings.h"
#include "lib/receive/intake/program_intake.h"
#include "lib/receive/resolve/from_settings.h"
#include "lib/receive/resolve/key_records.h"
#include "lib/receive/resolve/name_servers.h"
#include "lib/suite/service/plan.h"
#include "lib/suite/service/service.h"
#include "lib/trust/signing/remote_keys.h"
#include "pickup/collector.h"
#include "pickup/from_settings.h"
#include "pickup/submit_server.h"

namespace {

using namespace pen;

constexpr std::size_t kThreads = 4;
const intake::ProgramIntake::Logs kLogs{log::as_info, log::as_warning};

/// Where the queue has an account of its own, both are the programs' alone.
std::vector<uid_t> accounts_of_programs(const service::Context& context) {
  const service::Owners& owners = context.owners();
  if (!owners.apart()) return {};
  return {owners.mail.uid, owners.queue.uid};
}

struct Program {
  Program(service::Context& context, std::shared_ptr<const resolve::Resolve> resolver, intake::Settings settings,
          mail::DsnSettings notices, std::optional<submission::Rights> rights, net::ResolverOptions dns,
          std::shared_ptr<const milter::Settings> milters, std::shared_ptr<const tenant::Identity> tenants,
          std::shared_ptr<const tenant::Priorities> priorities)
      : pool(context.loop(), kThreads),
        own(context.loop(), pool, context.queue_path(ipc::kQmgrSocket), std::move(resolver), std::move(settings),
            kLogs),
        filters(milters->other.empty()
                    ? nullptr
                    : std::make_unique<milter::OtherFilters>(context.loop(), std::move(dns), milters, own.intake)),
        collector(std::make_shared<pickup::Collector>(
            context.loop(), pool, own.intake,
            pickup::Collector::Options{
                .drop_directory = context.queue_path("maildrop"),
                .corrupt_directory = context.queue_path("corrupt"),
                .notices = std::move(notices),
                .notice = own_notice(context.settings()),
                .detect_smtputf8_of_probes = intake::detects_smtputf8(context.settings(), "verify"),
                .size_limit = static_cast<std::uint64_t>(context.settings().message_size_limit),
                .rights = std::move(rights),
                .filters = filters.get(),
                .tenants = std::move(tenants),
                .priorities = std::move(priorities)})) {}

  /// Notices about mail that cannot be taken.
  intake::OwnMail own_notice(const config::Settings& s) {
    intake::OwnMail notice = intake::own_mail(s, "bounce");
    if (filters) notice.filters = filters->for_own_mail();
    return notice;
  }

  async::HandlerPool pool;
  intake::ProgramIntake own;
  std::unique_ptr<milter::OtherFilters> filters;  // nullptr: non_smtpd_milters is empty
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
  return at && service::is_at(*at, service::kSubmitSocket);
}

/// Whether results that users write say nothing: where results are found out, and clients on this host are not exempt,
/// for users here could as well connect to smtpd. Without knowing the list they say nothing either.
bool drops_results(const config::Settings& s) {
  auto exempt = map::MatchList::open(
      map::MatchList::Kind::host, join(s.authentication_results_exempt_clients),
      {.open = {.default_type = s.default_database_type, .setting = "authentication_results_exempt_clients"},
       .keep_faulty = true});
  const bool finds_out = s.spf_verify || s.dkim_verify || s.dmarc_verify;
  return finds_out && (!exempt || !exempt->matches_host("localhost", "127.0.0.1").value_or(false));
}

Result<intake::Settings> intake_settings(const config::Settings& s, std::shared_ptr<signing::RemoteKeys> keys) {
  PEN_TRY_ASSIGN(auto out, intake::from_settings(s, std::move(keys)));
  out.message_size_limit = 0;  // the collector keeps it: a notice about a message may be larger
  out.detect_smtputf8 = intake::detects_smtputf8(s, "sendmail");
  // All of them, as a border may (RFC 8601 section 5): the owner of a field is named in its value, which comes later.
  if (drops_results(s)) out.drop_fields.emplace_back("Authentication-Results");
  return out;
}

// How long a start waits for the key process. Then mail is taken without it, and what is to be signed waits.
constexpr seconds kKeysWait{15};

async::Task<void> begin(std::shared_ptr<Program> program, service::Context* context,
                        std::shared_ptr<signing::RemoteKeys> keys) {
  const async::Until until{.deadline = context->loop().now() + kKeysWait, .cancel = &context->draining()};
  if (keys && !co_await keys->listed(until)) log::warning("the key process does not answer: mail to be signed waits");
  context->sessions().spawn("collector", pickup::Collector::run(program->collector, &context->draining()));
  context->serve([program](async::Listener::Accepted accepted) {
    if (brings_mail(accepted)) return pickup::SubmitServer::serve(program->submissions, std::move(accepted.stream));
    return woken(program, std::move(accepted));
  });
  context->ready();
}

/// What the settings say, and the tables that they name.
struct Reading {
  std::shared_ptr<const resolve::Resolve> resolve;
  std::shared_ptr<signing::RemoteKeys> keys;
  intake::Settings intake;
  std::optional<submission::Rights> rights;  // nullopt: nobody needs to be asked
  net::ResolverOptions dns;
  std::shared_ptr<const milter::Settings> milters;
  std::shared_ptr<const tenant::Identity> tenants;
  std::shared_ptr<const tenant::Priorities> priorities;
};

Result<Reading> read(service::Context& context) {
  const config::Settings& s = context.settings();
  Reading out;
  PEN_TRY_ASSIGN(out.resolve, resolve::Resolve::open(resolve::from_config(context.config())));
  out.keys = signing::RemoteKeys::open(context.loop(), context.config(), log::as_warning);
  PEN_TRY_ASSIGN(out.intake, intake_settings(s, out.keys));
  if (const auto wanted = pickup::rights_of(s); !wanted.everybody()) {
    PEN_TRY_ASSIGN(out.rights, submission::Rights::open(wanted));
  }
  PEN_TRY_ASSIGN(out.dns, resolve::name_servers(s, resolve::read_resolv_conf()));
  PEN_TRY_ASSIGN(out.milters, milter::Settings::read(s, {.default_type = s.default_database_type}));
  PEN_TRY_ASSIGN(out.tenants, tenant::Identity::open(s));
  PEN_TRY_ASSIGN(out.priorities, tenant::Priorities::open(s));
  return out;
}

Result<void> look(service::Context& context) {
  PEN_TRY(read(context));
  return {};
}

Result<service::Hooks> start(service::Context& context) {
  PEN_TRY_ASSIGN(auto reading, read(context));
  intake::tell(reading.intake, *reading.resolve, kLogs);
  auto notices = bounce::notice_form(context.config());
  if (!notices.problem.empty()) log::warning("{}", notices.problem);
  if (reading.tenants)
    for (const auto& problem : reading.tenants->problems()) log::warning("{}", map::advice(problem));
  if (reading.priorities)
    for (const auto& problem : reading.priorities->problems()) log::warning("{}", map::advice(problem));
  resolve::watch_key_records(context.loop(), reading.intake.signing, reading.dns, context.draining(), log::as_said);
  auto program =
      std::make_shared<Program>(context, std::move(reading.resolve), std::move(reading.intake),
                                std::move(notices.settings), std::move(reading.rights), std::move(reading.dns),
                                std::move(reading.milters), std::move(reading.tenants), std::move(reading.priorities));
  program->submissions = std::make_shared<pickup::SubmitServer>(
      context.loop(), program->pool,
      pickup::SubmitServer::Options{
          .drop_directory = context.queue_path("maildrop"),
          .size_limit = static_cast<std::uint64_t>(context.settings().message_size_limit),
          .refusal = [collector = program->collector](uid_t uid,
                                                      std::string sender) { return collector->refusal(uid, sender); },
          .programs = accounts_of_programs(context),
          .next_id = [program] { return program->own.ids.next(); },
          .taken = [collector = program->collector] { collector->wake(); }});
  program->own.queue.start();
  context.loop().spawn("begin", begin(program, &context, reading.keys));
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
  return pen::service::run(argc, argv,
                           {.name = "pickup",
                            .summary = "takes locally submitted mail into the queue",
                            .announces_ready = true,
                            .look = look},
                           start);
}
