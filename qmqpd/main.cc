/// qmqpd: takes mail by QMQP. See man/qmqpd.8.
#include <fmt/format.h>

#include <memory>

#include "lib/base/log.h"
#include "lib/base/log_handlers.h"
#include "lib/base/text.h"
#include "lib/receive/intake/from_settings.h"
#include "lib/receive/intake/program_intake.h"
#include "lib/receive/resolve/from_settings.h"
#include "lib/receive/resolve/key_records.h"
#include "lib/receive/resolve/name_servers.h"
#include "lib/suite/service/service.h"
#include "lib/trust/signing/remote_keys.h"
#include "qmqpd/server.h"

namespace {

using namespace pen;
using service::Context;

constexpr std::size_t kFileThreads = 4;
constexpr std::size_t kNameThreads = 2;  // host look-ups by the system's own means
const intake::ProgramIntake::Logs kLogs{log::as_info, log::as_warning};
// How long a start waits for the key process. Then mail is taken without it, and what is to be signed is put off.
constexpr seconds kKeysWait{15};

/// Everything of the process; dies with it.
struct Program {
  Program(Context& context, net::ResolverOptions dns, intake::Settings settings,
          std::shared_ptr<const resolve::Resolve> resolve)
      : files(context.loop(), kFileThreads),
        name_threads(context.loop(), kNameThreads),
        resolver(context.loop(), name_threads, std::move(dns)),
        own(context.loop(), files, context.queue_path(ipc::kQmgrSocket), std::move(resolve), std::move(settings),
            kLogs) {}

  async::HandlerPool files, name_threads;
  net::Resolver resolver;
  intake::ProgramIntake own;
  std::unique_ptr<milter::OtherFilters> filters;  // nullptr: non_smtpd_milters is empty
  std::shared_ptr<qmqpd::Server> server;
};

/// qmqpd_authorized_clients.
Result<map::MatchList> clients_of(const config::Settings& s) {
  constexpr const char* kName = "qmqpd_authorized_clients";
  auto list = map::MatchList::open(map::MatchList::Kind::host, join(s.qmqpd_authorized_clients),
                                   {.parent_domains = resolve::parent_domains(s, kName),
                                    .open = {.default_type = s.default_database_type, .setting = kName},
                                    .keep_faulty = true});
  if (!list) return fail(std::move(list).error().within(kName));
  for (const std::string& fault : list->faults()) log::warning("{}: {}", kName, fault);
  if (list->empty()) log::warning("{} is empty: no client may hand in mail", kName);
  return list;
}

Result<intake::Settings> intake_settings(const config::Settings& s, std::shared_ptr<signing::RemoteKeys> keys) {
  PEN_TRY_ASSIGN(auto out, intake::from_settings(s, std::move(keys)));
  out.detect_smtputf8 = intake::detects_smtputf8(s, "qmqpd");
  return out;
}

/// From here on the service is ready.
async::Task<void> begin(std::shared_ptr<Program> program, Context* context, std::shared_ptr<signing::RemoteKeys> keys) {
  const async::Until until{.deadline = context->loop().now() + kKeysWait, .cancel = &context->draining()};
  if (keys && !co_await keys->listed(until)) log::warning("the key process does not answer: mail to be signed waits");
  context->serve([server = program->server](async::Listener::Accepted accepted) {
    return qmqpd::Server::serve(server, std::move(accepted));
  });
  context->ready();
}

std::vector<std::string> status(const Program& program) {
  const auto& c = program.server->counts();
  std::vector<std::string> lines{fmt::format("sessions {} live, {} served; messages {}; refused {}, broken off {}",
                                             c.live, c.sessions, c.messages, c.refused, c.broken_off),
                                 program.own.status_line(), program.own.intake.tables.status_line()};
  if (program.filters)
    for (auto& line : program.filters->status()) lines.push_back(std::move(line));
  return lines;
}

/// What the settings say, and the tables that they name.
struct Reading {
  std::shared_ptr<const resolve::Resolve> resolve;
  map::MatchList clients;
  net::ResolverOptions dns;
  std::shared_ptr<signing::RemoteKeys> keys;
  intake::Settings intake;
  std::shared_ptr<const milter::Settings> milters;
  std::shared_ptr<const tenant::Identity> tenants;
  std::shared_ptr<const tenant::Priorities> priorities;
};

Result<Reading> read(Context& context) {
  const config::Settings& s = context.settings();
  Reading out;
  PEN_TRY_ASSIGN(out.resolve, resolve::Resolve::open(resolve::from_config(context.config())));
  PEN_TRY_ASSIGN(out.clients, clients_of(s));
  PEN_TRY_ASSIGN(out.dns, resolve::name_servers(s, resolve::read_resolv_conf()));
  out.keys = signing::RemoteKeys::open(context.loop(), context.config(), log::as_warning);
  PEN_TRY_ASSIGN(out.intake, intake_settings(s, out.keys));
  PEN_TRY_ASSIGN(out.milters, milter::Settings::read(s, {.default_type = s.default_database_type}));
  PEN_TRY_ASSIGN(out.tenants, tenant::Identity::open(s));
  PEN_TRY_ASSIGN(out.priorities, tenant::Priorities::open(s));
  return out;
}

Result<void> look(Context& context) {
  PEN_TRY(read(context));
  return {};
}

Result<service::Hooks> start(Context& context) {
  const config::Settings& s = context.settings();
  PEN_TRY_ASSIGN(auto reading, read(context));
  intake::tell(reading.intake, *reading.resolve, kLogs);
  if (reading.tenants)
    for (const auto& problem : reading.tenants->problems()) log::warning("{}", map::advice(problem));
  if (reading.priorities)
    for (const auto& problem : reading.priorities->problems()) log::warning("{}", map::advice(problem));
  resolve::watch_key_records(context.loop(), reading.intake.signing, reading.dns, context.draining(), log::as_said);
  auto program = std::make_shared<Program>(context, reading.dns, std::move(reading.intake), std::move(reading.resolve));
  if (!reading.milters->other.empty())
    program->filters = std::make_unique<milter::OtherFilters>(context.loop(), std::move(reading.dns), reading.milters,
                                                              program->own.intake);
  program->server = std::make_shared<qmqpd::Server>(
      context.loop(), program->own.intake,
      qmqpd::Server::Options{.clients = std::move(reading.clients),
                             .limits = {.content = static_cast<std::uint64_t>(s.message_size_limit),
                                        .address = static_cast<std::size_t>(s.line_length_limit)},
                             .timeout = s.qmqpd_timeout,
                             .error_delay = s.qmqpd_error_delay,
                             .show_port = s.qmqpd_client_port_logging,
                             .find_name =
                                 [program = program.get()](std::string address, async::Until until) {
                                   return resolve::peer_name(program->resolver, std::move(address), until);
                                 },
                             .filters = program->filters.get(),
                             .tenants = std::move(reading.tenants),
                             .priorities = std::move(reading.priorities)});
  program->own.queue.start();
  context.loop().spawn("begin", begin(program, &context, reading.keys));
  // At a reload the sessions go on with the settings that they began with; only a stop ends them.
  return service::Hooks{.stop = [program] { program->server->stop(); },
                        .status = [program] { return status(*program); }};
}

}  // namespace

int main(int argc, char** argv) {
  return pen::service::run(argc, argv,
                           {.name = "qmqpd", .summary = "QMQP server", .announces_ready = true, .look = look}, start);
}
