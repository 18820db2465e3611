/// smtp, lmtp: delivers mail to other hosts for qmgr. See man/smtp.8.
#include <memory>
#include <set>

#include "lib/base/log.h"
#include "lib/delivery/program.h"
#include "lib/ipc/tls_reports.h"
#include "lib/resolve/from_settings.h"
#include "lib/smtp/from_config.h"
#include "lib/smtp/tls.h"
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
  std::shared_ptr<ipc::SessionErrors> session_errors;  // nullptr: nobody is told
  std::set<const smtp::Deliveries*> deliveries;        // for status
};

/// Ends with the conversation, and its connections end at once: what has not come to end-of-data has no effect.
async::Task<Result<void>> deliver(std::shared_ptr<Server> server, delivery::Channel channel) {
  delivery::Conversation qmgr(std::move(channel));
  smtp::Deliveries deliveries(server->loop, server->settings, qmgr, server->tls.get(), server->logins);
  if (server->reports) deliveries.report_tls(server->reports, server->skip_resumed);
  if (server->session_errors)
    deliveries.tell_postmaster(
        [told = server->session_errors](ipc::session_errors::Session s) { told->tell(std::move(s)); });
  server->deliveries.insert(&deliveries);
  auto ended = co_await delivery::converse(qmgr, deliveries, server->draining);
  server->deliveries.erase(&deliveries);
  co_return ended;
}

Result<service::Hooks> start(service::Context& context, bool lmtp, std::shared_ptr<smtp::ClientTls> tls) {
  tls->watch();
  PEN_TRY_ASSIGN(auto logins, smtp::Logins::open(context.settings(), lmtp, context.loop()));
  smtp::Settings settings = smtp::settings_from(context.settings(), lmtp);
  smtp::bind_to_single_address(settings, resolve::interface_addresses(context.settings()));
  PEN_TRY_ASSIGN(settings.rules, smtp::open_rules(context.settings(), lmtp));
  PEN_TRY_ASSIGN(settings.filter, smtp::open_filter(context.settings(), lmtp));
  PEN_TRY_ASSIGN(const auto table_problems, smtp::open_server_tables(context.settings(), lmtp, settings));
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
                                                std::move(tls),
                                                std::move(logins),
                                                nullptr,
                                                context.settings().smtp_tlsrpt_skip_reused_handshakes,
                                                nullptr,
                                                {}});
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
  delivery::serve(context, [server](delivery::Channel channel) { return deliver(server, std::move(channel)); });
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
  std::shared_ptr<pen::smtp::ClientTls> tls;  // made while keys that only root can read can be read
  const auto with_privileges = [lmtp, &tls](const pen::config::Config& config) {
    const pen::config::Settings& s = config.settings();
    pen::smtp::TlsSettings settings = pen::smtp::settings_from(s, lmtp).tls;
    if (const auto configured = pen::tls::configure_library(s.tls_config_file, s.tls_config_name); !configured)
      settings.unusable = configured.error().message();
    tls = std::make_shared<pen::smtp::ClientTls>(std::move(settings), pen::system_clock());
    tls->preload();
  };
  return pen::service::run(argc, argv,
                           {.name = lmtp ? "lmtp" : "smtp",
                            .summary = lmtp ? "delivers mail by LMTP" : "delivers mail by SMTP",
                            .with_privileges = with_privileges},
                           [lmtp, &tls](pen::service::Context& context) { return start(context, lmtp, tls); });
}
