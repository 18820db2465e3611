/// smtp, lmtp: delivers mail to other hosts for qmgr. See man/smtp.8.
#include <memory>
#include <set>

#include "lib/base/log.h"
#include "lib/config/key_process.h"
#include "lib/meaning/smtp/from_config.h"
#include "lib/meaning/smtp/tls.h"
#include "lib/queue/shaping/rules_file.h"
#include "lib/receive/resolve/from_settings.h"
#include "lib/send/delivery/program.h"
#include "lib/suite/ipc/tls_reports.h"
#include "lib/trust/key_client/client.h"
#include "smtp/deliveries.h"
#include "smtp/logins.h"
#include "smtp/rewritten.h"

namespace {

using namespace pen;

struct Server {
  async::Loop& loop;
  async::Cancel& draining;
  smtp::Settings settings;
  std::shared_ptr<smtp::ClientTls> tls;
  std::shared_ptr<smtp::Logins> logins;      // nullptr: nobody logs in
  std::shared_ptr<ipc::TlsReports> reports;  // nullptr: none are made
  bool skip_resumed = false;
  std::shared_ptr<ipc::SessionErrors> session_errors;  // nullptr: they are not reported
  std::set<const smtp::Deliveries*> deliveries;        // for status
  std::shared_ptr<trace::Hub> trace;
  std::shared_ptr<const shaping::Rules> complaints;  // nullptr: shaping is not yes
};

/// Ends with the conversation, and its connections end at once: what has not come to end-of-data has no effect.
async::Task<Result<void>> deliver(std::shared_ptr<Server> server, delivery::Channel channel) {
  delivery::Conversation qmgr(std::move(channel));
  smtp::Deliveries deliveries(server->loop, server->settings, qmgr, server->tls.get(), server->logins);
  if (server->reports) deliveries.report_tls(server->reports, server->skip_resumed);
  if (server->session_errors)
    deliveries.tell_postmaster(
        [told = server->session_errors](ipc::session_errors::Session s) { told->tell(std::move(s)); });
  deliveries.trace_to(server->trace);
  deliveries.know_complaints(server->complaints);
  server->deliveries.insert(&deliveries);
  auto ended = co_await delivery::converse(qmgr, deliveries, server->draining);
  server->deliveries.erase(&deliveries);
  co_return ended;
}

std::shared_ptr<trace::Hub> trace_hub(service::Context& context) {
  const config::Settings& s = context.settings();
  return std::make_shared<trace::Hub>(context.loop(),
                                      trace::Hub::Options{.service = context.service(),
                                                          .readers = static_cast<std::size_t>(s.trace_subscriber_limit),
                                                          .buffer = static_cast<std::size_t>(s.trace_buffer_limit)},
                                      context.draining());
}

// How long a start waits for the key process. Then what demands TLS waits, and everything else is delivered.
constexpr seconds kKeysWait{15};

async::Task<void> begin(std::shared_ptr<Server> server, service::Context* context, std::shared_ptr<keys::Client> keys) {
  const async::Until until{.deadline = server->loop.now() + kKeysWait, .cancel = &server->draining};
  if (keys && !co_await keys->listed(until))
    log::warning("the key process does not answer: mail that demands TLS waits until it does");
  const service::Conversation trace{ipc::trace::kName, [hub = server->trace](ipc::Opening opening) {
                                      return trace::Hub::serve(hub, std::move(opening));
                                    }};
  delivery::serve(*context, [server](delivery::Channel channel) { return deliver(server, std::move(channel)); },
                  {trace});
  context->ready();
}

std::shared_ptr<keys::Client> key_client(service::Context& context, smtp::ClientTls& tls) {
  const auto socket = config::key_socket(context.config());
  if (!socket || !tls.needs_keys()) return nullptr;
  auto client = std::make_shared<keys::Client>(
      context.loop(), keys::Client::Options{.path = context.queue_path(*socket),
                                            .conversation = ipc::keys::kClientName,
                                            .meanwhile = "TLS handshakes with a certificate of this host wait",
                                            .report = log::as_warning});
  tls.use_keys(client);
  client->start();
  return client;
}

/// What only root may be able to read.
struct Prepared {
  std::shared_ptr<smtp::ClientTls> tls;
  std::shared_ptr<const shaping::Rules> complaints;
};

Prepared prepare(const config::Config& config, bool lmtp) {
  const config::Settings& s = config.settings();
  Prepared out;
  smtp::TlsSettings settings = smtp::settings_from(s, lmtp).tls;
  if (const auto configured = tls::configure_library(s.tls_config_file, s.tls_config_name); !configured)
    settings.unusable = configured.error().message();
  out.tls = std::make_shared<smtp::ClientTls>(std::move(settings), system_clock());
  if (config::key_socket(config)) out.tls->keys_elsewhere();
  out.tls->preload();
  if (s.shaping == config::Shaping::yes)  // qmgr reports a file that cannot be used
    out.complaints =
        std::make_shared<const shaping::Rules>(shaping::read_usable_files(s.shaping_rules_files, [](auto) {}));
  return out;
}

/// What the settings say, and the tables that they name.
struct Reading {
  std::shared_ptr<smtp::Logins> logins;  // nullptr: nobody logs in
  smtp::Settings settings;
  std::vector<Error> table_problems;
};

Result<Reading> read(service::Context& context, bool lmtp) {
  const config::Settings& s = context.settings();
  Reading out;
  PEN_TRY_ASSIGN(out.logins, smtp::Logins::open(s, lmtp, context.loop()));
  out.settings = smtp::settings_from(s, lmtp);
  PEN_TRY_ASSIGN(out.settings.rules, smtp::open_rules(s, lmtp));
  PEN_TRY_ASSIGN(out.settings.filter, smtp::open_filter(s, lmtp));
  PEN_TRY_ASSIGN(out.table_problems, smtp::open_server_tables(s, lmtp, out.settings));
  return out;
}

Result<service::Hooks> start(service::Context& context, bool lmtp, Prepared prepared) {
  prepared.tls->watch();
  auto keys = key_client(context, *prepared.tls);
  PEN_TRY_ASSIGN(auto reading, read(context, lmtp));
  auto& [logins, settings, table_problems] = reading;
  smtp::bind_to_single_address(settings, resolve::interface_addresses(context.settings()));
  for (const auto& problem : table_problems) log::warning("{}", map::advice(problem));
  if (settings.filter)
    for (const auto& problem : settings.filter->problems()) log::warning("{}", map::advice(problem));
  if (settings.rules) {
    for (const auto& problem : settings.rules->problems()) log::warning("{}", map::advice(problem));
    if (settings.rules->checks)
      if (const auto why = settings.rules->checks->slower_because(); !why.empty()) log::info("{}", why);
  }
  auto server = std::make_shared<Server>(Server{context.loop(),
                                                context.draining(),
                                                settings,
                                                std::move(prepared.tls),
                                                std::move(logins),
                                                nullptr,
                                                context.settings().smtp_tlsrpt_skip_reused_handshakes,
                                                nullptr,
                                                {},
                                                trace_hub(context),
                                                std::move(prepared.complaints)});
  if (!settings.told.empty()) {
    server->session_errors =
        std::make_shared<ipc::SessionErrors>(context.loop(), context.queue_path(ipc::kBounceSocket), log::as_warning);
    server->session_errors->start();
  }
  if (!lmtp && context.settings().smtp_tlsrpt_enable) {
    server->reports =
        std::make_shared<ipc::TlsReports>(context.loop(), context.queue_path(ipc::kTlsReportSocket), log::as_warning);
    server->reports->start();
  }
  context.loop().spawn("begin", begin(server, &context, std::move(keys)));
  return service::Hooks{.status = [server] {
    std::vector<std::string> lines;
    for (const auto* d : server->deliveries)
      for (auto& line : d->status()) lines.push_back(std::move(line));
    return lines;
  }};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view self(argc > 0 ? argv[0] : "smtp");
  const bool lmtp = self.substr(self.rfind('/') + 1) == "lmtp";
  Prepared prepared;
  const auto with_privileges = [lmtp, &prepared](const pen::config::Config& config) {
    prepared = prepare(config, lmtp);
  };
  return pen::service::run(
      argc, argv,
      {.name = lmtp ? "lmtp" : "smtp",
       .summary = lmtp ? "delivers mail by LMTP" : "delivers mail by SMTP",
       .announces_ready = true,
       .look = [lmtp](pen::service::Context& c) -> pen::Result<void> {
         PEN_TRY(read(c, lmtp));
         return {};
       },
       .with_privileges = with_privileges},
      [lmtp, &prepared](pen::service::Context& context) { return start(context, lmtp, std::move(prepared)); });
}
