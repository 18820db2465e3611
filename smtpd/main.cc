/// smtpd: the SMTP server. See man/smtpd.8.
#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/base/log_as.h"
#include "lib/base/log_handlers.h"
#include "lib/config/key_process.h"
#include "lib/net/redis/server.h"
#include "lib/receive/intake/from_settings.h"
#include "lib/receive/intake/program_intake.h"
#include "lib/receive/resolve/from_settings.h"
#include "lib/receive/resolve/key_records.h"
#include "lib/receive/resolve/name_servers.h"
#include "lib/suite/ipc/dmarc_reports.h"
#include "lib/suite/service/conversations.h"
#include "lib/suite/service/service.h"
#include "lib/trust/key_client/client.h"
#include "lib/trust/sasl/dovecot_service.h"
#include "lib/trust/sasl/token_service.h"
#include "lib/trust/signing/remote_keys.h"
#include "smtpd/dns_names.h"
#include "smtpd/screen_cluster.h"
#include "smtpd/screen_file.h"
#include "smtpd/server.h"
#include "smtpd/session.h"

namespace {

using namespace pen;
using service::Context;
using service::Hooks;

constexpr std::size_t kFileThreads = 8;  // reads and writes of large bodies
constexpr std::size_t kNameThreads = 4;  // the hosts file, host look-ups by the system's own means
const intake::ProgramIntake::Logs kLogs{log::as_info, log::as_warning};

/// Everything of the process; dies with it.
struct Program {
  Program(Context& context, net::ResolverOptions dns, intake::Settings settings,
          std::shared_ptr<const resolve::Resolve> resolve)
      : files(context.loop(), kFileThreads),
        name_threads(context.loop(), kNameThreads),
        resolver(context.loop(), name_threads, std::move(dns)),
        names(resolver, name_threads),
        own(context.loop(), files, context.queue_path(ipc::kQmgrSocket), std::move(resolve), std::move(settings), kLogs,
            static_cast<std::uint64_t>(context.settings().queue_inline_limit)),
        server(context.loop(), files, names, own.intake) {}

  async::HandlerPool files, name_threads;
  net::Resolver resolver;
  smtpd::DnsNames names;
  intake::ProgramIntake own;
  smtpd::Server server;
  std::unique_ptr<smtpd::ScreenCluster> screen_cluster;  // nullptr: no host shares anything
  std::unique_ptr<smtpd::ScreenFile> screen_file;        // nullptr: clients are not tested
  // Of the key process; nullptr: not needed, or keys are read here.
  std::shared_ptr<keys::Client> tls_keys;
  std::shared_ptr<signing::RemoteKeys> dkim_keys;
};

std::vector<std::string> status(const Program& program) {
  const auto& c = program.server.counts;
  std::vector<std::string> lines{
      fmt::format("sessions {} live, {} served; messages {}; refused commands {}", c.live, c.sessions, c.messages,
                  c.refused),
      program.own.status_line(),
      fmt::format("TLS sessions {}, resumed {}; handshakes failed {}", c.tls_sessions, c.tls_resumed,
                  c.failed_handshakes),
      fmt::format("DNS lists: {} questions under way; {} asked, {} shared, {} without an answer, {} not asked at rest",
                  program.server.lists.counts().under_way, program.server.lists.counts().asked,
                  program.server.lists.counts().joined, program.server.lists.counts().unknown,
                  program.server.lists.counts().not_asked),
      program.server.classes
          ? fmt::format("anvil {}connected, {} sessions of classes", program.server.classes->connected() ? "" : "not ",
                        program.server.classes->size())
          : "no session classes",
      program.own.intake.tables.status_line()};
  if (const auto& keys = program.tls_keys)
    lines.push_back(fmt::format("key process {}connected; {} questions, {} under way", keys->connected() ? "" : "not ",
                                keys->asked(), keys->under_way()));
  if (const auto& stress = program.server.stress; stress && stress->on())
    lines.push_back(fmt::format("under stress: {} places are taken", stress->taken()));
  if (program.server.screener) lines.push_back(program.server.screener->status_line());
  for (auto& line : program.server.milters.status()) lines.push_back(std::move(line));
  for (auto& line : program.server.policies.status()) lines.push_back(std::move(line));
  return lines;
}

/// The holder of session leases; none: session_classes is empty.
Result<std::shared_ptr<sessions::Holder>> session_holder(Context& context) {
  auto parsed = sessions::Classes::parse(context.settings().session_classes);
  if (!parsed) return fail(config::ConfigError::bad_value, "session_classes: " + parsed.error());
  if (parsed->empty()) return nullptr;
  const auto classes = std::make_shared<const sessions::Classes>(*std::move(parsed));
  const auto all_full = [&context, classes, told = SteadyTime::min()](bool full) mutable {
    // A socket that only clients without a class can reach goes on.
    context.pause_accepting(full, [&](const async::SocketAddress& at) {
      const bool exempt = at.is_unix() || sessions::is_loopback(parse_ip(at.host));
      return !exempt || classes->names_loopback();
    });
    if (!full || context.loop().now() < told + seconds(60)) return;
    told = context.loop().now();
    log::warning("every session class is full: clients wait in the kernel until a session ends");
  };
  return std::make_shared<sessions::Holder>(context.loop(), context.queue_path(ipc::kAnvilSocket), classes,
                                            sessions::Holder::Events{.all_full = all_full, .report = log::as_warning},
                                            sessions::Holder::Options{});
}

/// A limit is set of what clients may do.
bool counts_clients(const config::Settings& s) {
  return s.smtpd_client_connection_count_limit > 0 || s.smtpd_client_connection_rate_limit > 0 ||
         s.smtpd_client_message_rate_limit > 0 || s.smtpd_client_recipient_rate_limit > 0 ||
         s.smtpd_client_auth_rate_limit > 0 || s.smtpd_client_new_tls_session_rate_limit > 0;
}

/// The authentication service; none: AUTH is not enabled, or no service decides.
Result<std::shared_ptr<sasl::DovecotService>> authentication(Context& context) {
  if (!smtpd::AuthPolicy::available(context.settings()) || smtpd::AuthPolicy::by_token(context.settings()))
    return nullptr;
  PEN_TRY_ASSIGN(auto peer, smtpd::AuthPolicy::service(context.config()));
  if (!peer) return nullptr;  // the policy has logged it
  auto service =
      std::make_shared<sasl::DovecotService>(context.loop(), *std::move(peer), sasl::DovecotService::Options{});
  service->on_down = [](const std::string& why) {
    log::warning("SASL: {}: clients cannot log in until it is back", why);
  };
  service->on_up = [] { log::info("SASL: the authentication server is back"); };
  return service;
}

/// Clients are tested before they are served.
void screen_clients(Context& context, Program& program, std::shared_ptr<const smtpd::Screening> screening,
                    std::optional<redis::ClientOptions> cluster) {
  const config::Settings& s = context.settings();
  for (const auto& warning : screening->warnings) log::warning("{}", warning);
  if (s.smtpd_process_count != 1)
    log::warning("the service has one process, whatever smtpd_process_count says, because it tests its clients");
  program.server.screener = std::make_shared<smtpd::Screener>(context.loop(), std::move(screening), context.limit());
  program.screen_file = std::make_unique<smtpd::ScreenFile>(
      context.loop(), *program.server.screener,
      smtpd::ScreenFile::Times{.clean_each = s.postscreen_cache_cleanup_interval,
                               .retention = std::chrono::ceil<seconds>(s.postscreen_cache_retention_time)});
  program.screen_file->start();
  if (!cluster) return;
  cluster->seed = secure_random_u64();
  program.screen_cluster = std::make_unique<smtpd::ScreenCluster>(context.loop(), *program.server.screener,
                                                                  *std::move(cluster), s.destdb_redis_prefix);
  program.screen_cluster->start();
}

/// Settings that refer to $stress follow the load, unless -o says what they are to do.
void watch_load(Context& context, smtpd::Server& server) {
  if (!server.policy()->stress_given) {
    server.stress = std::make_unique<smtpd::Stress>(
        context.loop(), smtpd::Stress::sessions(context.limit()), [&context](bool on, std::size_t taken) {
          if (on)
            log::warning(
                "service \"{}\" has reached its process limit \"{}\": new clients may experience noticeable delays; "
                "it runs with stress = yes",
                context.service(), taken);
          else
            log::info("service \"{}\" has {} sessions: it no longer runs with stress = yes", context.service(), taken);
        });
  }
  if (!server.screener) return;
  const auto tested = static_cast<std::size_t>(context.settings().postscreen_pre_queue_limit);
  server.screener->stress =
      std::make_unique<smtpd::Stress>(context.loop(), smtpd::Stress::tests(tested), [](bool on, std::size_t taken) {
        log::info_as("postscreen", "{} STRESS mode with {} connections", on ? "entering" : "leaving", taken);
      });
}

/// Connections at once at a port where clients are tested: those under test, those that are served, those that wait for
/// that, and as many that are getting the reply that there are too many.
std::size_t connections_of_screened(const Context& context) {
  const config::Settings& s = context.settings();
  const auto tested = static_cast<std::size_t>(s.postscreen_pre_queue_limit);
  const auto waiting = static_cast<std::size_t>(s.postscreen_post_queue_limit);
  constexpr std::size_t kMost = 1'000'000;
  return std::min(context.limit(), kMost) + 2 * tested + waiting;
}

async::Task<void> drain(std::shared_ptr<Program> program, Context* context) {
  if (program->screen_file) co_await program->screen_file->finish();  // the next process waits for it
  (void)co_await context->sessions().drained();
}

void start_tls(smtpd::ServerTls& tls) {
  tls.watch();
  for (const auto& warning : tls.take_warnings()) log::warning("{}", warning);
  if (const auto& problem = tls.ticket_problem(); !problem.empty())
    log::warning("session tickets are good for this process only: {}", problem);
}

// How long a start waits for the key process. Then clients are served without it: it may never come.
constexpr seconds kKeysWait{15};

/// From here on the service is ready: clients find TLS, and mail is signed, from the first one on.
async::Task<void> begin(std::shared_ptr<Program> program, Context* context, std::size_t bound) {
  const async::Until until{.deadline = context->loop().now() + kKeysWait, .cancel = &context->draining()};
  if (program->tls_keys && !co_await program->tls_keys->listed(until))
    log::warning("the key process does not answer: TLS is not available until it does");
  if (program->dkim_keys) (void)co_await program->dkim_keys->listed(until);
  context->serve(
      [program](async::Listener::Accepted accepted) {
        return smtpd::Session::serve(program->server, std::move(accepted.stream), std::move(accepted.peer),
                                     std::move(accepted.slot));
      },
      bound);
  context->ready();
}

/// What the settings say, and the tables that they name.
struct Reading {
  std::shared_ptr<const resolve::Resolve> resolve;
  std::shared_ptr<const smtpd::Policy> policy;
  net::ResolverOptions dns;
  resolve::DnsFilter dns_filter;
  std::shared_ptr<sessions::Holder> holder;           // nullptr: session_classes is empty
  std::shared_ptr<sasl::DovecotService> logins;       // nullptr: AUTH is not enabled
  std::shared_ptr<const smtpd::Screening> screening;  // nullptr: clients are not tested
  std::optional<redis::ClientOptions> screen_cluster;
  std::shared_ptr<signing::RemoteKeys> dkim_keys;
  intake::Settings intake;
};

Result<Reading> read(Context& context) {
  const config::Settings& s = context.settings();
  Reading out;
  PEN_TRY_ASSIGN(out.resolve, resolve::Resolve::open(resolve::from_config(context.config())));
  PEN_TRY_ASSIGN(out.policy, smtpd::Policy::open_policy(context.config(), out.resolve));
  PEN_TRY_ASSIGN(out.dns, resolve::name_servers(s, resolve::read_resolv_conf()));
  PEN_TRY_ASSIGN(out.dns_filter, resolve::DnsFilter::open("smtpd_dns_reply_filter", s.smtpd_dns_reply_filter,
                                                          {.default_type = s.default_database_type}));
  PEN_TRY_ASSIGN(out.holder, session_holder(context));
  PEN_TRY_ASSIGN(out.logins, authentication(context));
  if (context.arguments().screens) {
    PEN_TRY_ASSIGN(out.screening, smtpd::Screening::open(context.config(), *out.policy));
    if (s.destdb_backend == config::DestdbBackend::redis) {
      PEN_TRY_ASSIGN(out.screen_cluster, redis::client_options(s));
    }
  }
  out.dkim_keys = signing::RemoteKeys::open(context.loop(), context.config(), log::as_warning, true);
  PEN_TRY_ASSIGN(out.intake, intake::from_settings(s, out.dkim_keys));
  PEN_TRY_ASSIGN(out.intake.sealing, signing::Sealing::open(s, system_clock(), out.dkim_keys));
  if (out.intake.sealing)
    if (auto warning = out.intake.sealing->warning(); !warning.empty())
      out.intake.warnings.push_back(std::move(warning));
  return out;
}

/// What only root may be able to read, read while the rights are there.
struct Private {
  std::shared_ptr<smtpd::ServerTls> tls;            // nullptr when none is offered
  std::shared_ptr<sasl::TokenService> logins = {};  // nullptr: tokens are no logins here
};

std::shared_ptr<sasl::TokenService> token_logins(const config::Settings& s) {
  if (!smtpd::AuthPolicy::by_token(s)) return nullptr;
  auto tokens = s.smtpd_sasl_token_file.empty()
                    ? Result<sasl::TokenFile>(fail(sasl::SaslError::bad_setting, "it is not set"))
                    : sasl::TokenFile::read(s.smtpd_sasl_token_file);
  if (!tokens) tokens = fail(std::move(tokens).error().within("smtpd_sasl_token_file"));
  return std::make_shared<sasl::TokenService>(std::move(tokens));
}

/// For the table of certificates and the tokens too.
Result<void> look(Context& context) {
  PEN_TRY(read(context));
  (void)token_logins(context.settings());
  (void)smtpd::ServerTls::problems(context.config());
  return {};
}

intake::Settings intake_of(const config::Settings& s, const smtpd::Policy& policy, intake::Settings settings) {
  settings.show_logins = s.smtpd_sasl_authenticated_header;
  settings.detect_smtputf8 = intake::detects_smtputf8(s, "smtpd");
  if (policy.proxy) {  // that is for the smtpd behind the filter
    settings.checks = nullptr;
    settings.drop_fields.clear();
  }
  return settings;
}

void use_tls(Context& context, Program& program, std::shared_ptr<smtpd::ServerTls> tls) {
  if (!tls) return;
  if (const auto key_socket = config::key_socket(context.config())) {
    program.tls_keys =
        std::make_shared<keys::Client>(context.loop(), keys::Client::Options{.path = context.queue_path(*key_socket),
                                                                             .conversation = ipc::keys::kServerName,
                                                                             .meanwhile = "TLS handshakes wait",
                                                                             .report = log::as_warning});
    tls->use_keys(program.tls_keys);
    program.tls_keys->start();
  }
  program.server.tls = std::move(tls);
}

/// Other programs of the suite.
void ask_others(Context& context, smtpd::Server& server) {
  const config::Settings& s = context.settings();
  async::Loop& loop = context.loop();
  const std::string anvil = context.queue_path(ipc::kAnvilSocket);
  if (counts_clients(s)) {
    const auto counts =
        std::make_shared<sessions::AnvilCounts>(loop, anvil, sessions::AnvilCounts::Options{.report = log::as_warning});
    counts->start();
    server.clients = counts;
  }
  server.sender_memory =
      std::make_shared<sessions::AnvilMemory>(loop, anvil, sessions::AnvilMemory::Options{.report = log::as_warning});
  if (s.suppression_list)
    server.suppression =
        std::make_shared<suppression::Client>(loop, anvil, suppression::Client::Options{.report = log::as_warning});
  server.verifier = std::make_shared<smtpd::VerifyClient>(
      loop, context.queue_path(ipc::service_socket(s.address_verify_service_name)),
      smtpd::VerifyClient::Options{.report = log::as_warning});
  if (!server.policy()->told.empty()) {
    const auto told =
        std::make_shared<ipc::SessionErrors>(loop, context.queue_path(ipc::kBounceSocket), log::as_warning);
    told->start();
    server.tell_postmaster = [told](ipc::session_errors::Session session) { told->tell(std::move(session)); };
  }
  if (s.dmarc_report_enable && s.dmarc_verify) {
    const auto told =
        std::make_shared<ipc::DmarcReports>(loop, context.queue_path(ipc::kDmarcReportSocket), log::as_warning);
    told->start();
    server.report_dmarc = [told](ipc::dmarc_report::Result result) { told->tell(std::move(result)); };
  }
  server.site_flush =
      std::make_shared<smtpd::SiteFlush>(loop, smtpd::flush_by_qmgr(loop, context.queue_path(ipc::kQmgrSocket)));
}

/// Tokens come before a login service.
void let_log_in(smtpd::Server& server, std::shared_ptr<sasl::DovecotService> service,
                std::shared_ptr<sasl::TokenService> tokens) {
  if (service) service->start();
  server.authenticator = std::move(service);
  if (!tokens) return;
  if (const std::string& problem = tokens->problem(); !problem.empty())
    log::warning("{}: clients cannot log in until it is mended, and smtpd has read it again (penstock reload)",
                 problem);
  server.authenticator = std::move(tokens);
}

/// Tools may read the dialogues of sessions.
void let_trace(Context& context, smtpd::Server& server) {
  const config::Settings& s = context.settings();
  server.trace =
      std::make_shared<trace::Hub>(context.loop(),
                                   trace::Hub::Options{.service = context.service(),
                                                       .readers = static_cast<std::size_t>(s.trace_subscriber_limit),
                                                       .buffer = static_cast<std::size_t>(s.trace_buffer_limit)},
                                   context.draining());
  service::serve_conversations_at(
      context, context.queue_path(ipc::trace::smtpd_socket(context.service(), context.arguments().process)),
      {{ipc::trace::kName,
        [hub = server.trace](ipc::Opening opening) { return trace::Hub::serve(hub, std::move(opening)); }}});
}

Result<Hooks> start(Context& context, Private secrets) {
  const config::Settings& s = context.settings();
  PEN_TRY_ASSIGN(auto reading, read(context));
  const auto& [resolve, policy, dns_filter, screening] =
      std::tie(reading.resolve, reading.policy, reading.dns_filter, reading.screening);
  for (const auto& warning : policy->warnings) log::warning("{}", warning);
  if (secrets.tls) start_tls(*secrets.tls);
  intake::Settings settings = intake_of(s, *policy, std::move(reading.intake));
  intake::tell(settings, *resolve, kLogs);
  resolve::watch_key_records(context.loop(), settings.signing, reading.dns, context.draining(), log::as_said);
  auto program = std::make_shared<Program>(context, std::move(reading.dns), std::move(settings), resolve);
  program->dkim_keys = std::move(reading.dkim_keys);
  use_tls(context, *program, std::move(secrets.tls));
  smtpd::Server& server = program->server;
  server.set_policy(policy);
  server.service = context.service();
  for (const auto& problem : dns_filter.problems()) log::warning("{}", map::advice(problem));
  if (!dns_filter.empty()) program->names.filter_by(dns_filter, program->own.intake.tables);
  if (s.queue_minfree > 0) server.queue_space.emplace(context.loop().clock(), s.queue_directory);
  ask_others(context, server);
  if (reading.holder) reading.holder->start();
  server.classes = std::move(reading.holder);
  let_log_in(server, std::move(reading.logins), std::move(secrets.logins));
  if (screening) screen_clients(context, *program, screening, std::move(reading.screen_cluster));
  watch_load(context, server);
  program->own.queue.start();
  let_trace(context, server);
  context.loop().spawn("begin", begin(program, &context, screening ? connections_of_screened(context) : 0));
  // At a reload the sessions go on with the settings that they began with; only a stop ends them.
  return Hooks{.drain = [program, &context] { return drain(program, &context); },
               .stop = [program] { program->server.stop(); },
               .status = [program] { return status(*program); }};
}

}  // namespace

int main(int argc, char** argv) {
  Private secrets;
  const auto with_privileges = [&secrets](const pen::config::Config& config) {
    secrets = {pen::smtpd::ServerTls::open(config, pen::system_clock()), token_logins(config.settings())};
  };
  return pen::service::run(argc, argv,
                           {.name = "smtpd",
                            .summary = "SMTP server",
                            .announces_ready = true,
                            .look = look,
                            .with_privileges = with_privileges},
                           [&secrets](pen::service::Context& context) { return start(context, secrets); });
}
