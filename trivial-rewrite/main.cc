/// trivial-rewrite: answers qmgr's question where a recipient goes. See man/trivial-rewrite.8.
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/log_handlers.h"
#include "lib/receive/resolve/from_settings.h"
#include "lib/receive/resolve/name_servers.h"
#include "lib/suite/ipc/tls_reports.h"
#include "lib/suite/ipc/topology.h"
#include "lib/suite/service/conversations.h"
#include "trivial-rewrite/conversation.h"
#include "trivial-rewrite/transports.h"

namespace pen::rewrite {
namespace {

// For host look-ups by the system's own means (smtp_host_lookup = native).
constexpr std::size_t kNameThreads = 8;

/// Where MTA-STS policies come from. Null: no transport asks for any.
std::unique_ptr<mta_sts::Finder> open_sts(service::Context& context, net::Resolver& dns,
                                          const std::map<std::string, Transport>& transports) {
  const auto asks = [](const auto& t) { return t.second.sts.enable; };
  if (std::ranges::none_of(transports, asks)) return nullptr;
  const config::Settings& s = context.settings();
  mta_sts::FinderOptions options;
  options.timing.refresh = std::chrono::ceil<seconds>(s.smtp_mta_sts_refresh_time);
  options.timing.retry = std::chrono::ceil<seconds>(s.smtp_mta_sts_retry_time);
  options.wait = std::chrono::ceil<milliseconds>(s.smtp_mta_sts_wait);
  options.limit = std::chrono::ceil<milliseconds>(s.smtp_mta_sts_fetch_timeout);
  const HostOptions hosts = std::ranges::find_if(transports, asks)->second.hosts;
  options.ipv4 = hosts.ipv4;
  options.ipv6 = hosts.ipv6;
  options.lookup = hosts.lookup;
  options.tell = log::as_said;
  auto store = mta_sts::open_store(s.data_directory + "/mta_sts");
  if (!store) {
    log::warning("{}: MTA-STS policies are kept in memory only, until this process ends", store.error().message());
    store = mta_sts::memory_store();
  } else if (!(*store)->warning.empty()) {
    log::warning("{}", (*store)->warning);
  }
  auto fetcher = mta_sts::https_fetcher({.ca_file = s.smtp_mta_sts_CAfile,
                                         .port = static_cast<unsigned short>(s.smtp_mta_sts_port),
                                         .limit = options.limit});
  auto finder =
      std::make_unique<mta_sts::Finder>(context.loop(), dns, *std::move(store), std::move(fetcher), std::move(options));
  context.loop().spawn("MTA-STS policies", finder->keep());
  return finder;
}

struct Server {
  Server(service::Context& c, net::ResolverOptions dns_options, std::shared_ptr<const resolve::Resolve> r,
         std::map<std::string, Transport> t)
      : context(c),
        names(c.loop(), kNameThreads),
        tables(c.loop()),
        dns(c.loop(), names, std::move(dns_options)),
        transports(std::move(t)),
        sts(open_sts(c, dns, transports)),
        router(
            c.loop(), tables, dns, std::move(r),
            [this](const std::string& name) {
              const auto found = transports.find(name);
              return found == transports.end() ? nullptr : &found->second;
            },
            secure_random_u64(), sts.get()) {
    if (std::ranges::none_of(transports, [](const auto& t) { return t.second.reports_tls; })) return;
    const auto reports =
        std::make_shared<ipc::TlsReports>(c.loop(), c.queue_path(ipc::kTlsReportSocket), log::as_warning);
    reports->start();
    router.report_tls([reports](ipc::tls_report::Attempt attempt) { reports->tell(std::move(attempt)); });
  }

  service::Context& context;
  async::HandlerPool names;
  map::Asker tables;
  net::Resolver dns;
  std::map<std::string, Transport> transports;
  std::unique_ptr<mta_sts::Finder> sts;
  Router router;
  ConversationCounts counts;

  std::vector<std::string> status() const {
    const auto d = dns.counts();
    std::vector<std::string> lines = {
        fmt::format("routes: requests={}, resolved={}, failed={}, deferred={}, under_way={}", counts.requests,
                    counts.resolved, counts.failed, counts.deferred, counts.under_way),
        fmt::format("dns: asked={}, cached={}, joined={}, sent={}, over_tcp={}, timed_out={}, refused={}, "
                    "under_way={}, cache={}",
                    d.asked, d.cached, d.joined, d.sent, d.over_tcp, d.timed_out, d.refused_answers, d.under_way,
                    d.cache_entries),
        tables.status_line()};
    if (sts) {
      const auto m = sts->counts();
      lines.push_back(
          fmt::format("mta_sts: asked={}, applied={}, fetched={}, failed={}, waited_in_vain={}, under_way={}", m.asked,
                      m.applied, m.fetched, m.failed, m.waited_in_vain, m.under_way));
    }
    return lines;
  }
};

/// What the settings say, and the tables that they name.
struct Reading {
  net::ResolverOptions dns;
  std::map<std::string, Transport> transports;
  std::shared_ptr<const resolve::Resolve> resolve, for_probes;  // the last: nullptr, probes are routed like mail
};

Result<Reading> read(const config::Config& config) {
  Reading out;
  resolve::Options options = resolve::from_settings(config.settings());
  PEN_TRY_ASSIGN(out.dns, resolve::name_servers(config.settings(), resolve::read_resolv_conf()));
  PEN_TRY_ASSIGN(out.transports, read_transports(config, options.own_addresses));
  PEN_TRY_ASSIGN(out.resolve, resolve::Resolve::open(std::move(options)));
  if (auto apart = resolve::for_probes(config.settings())) {
    PEN_TRY_ASSIGN(out.for_probes, resolve::Resolve::open(*std::move(apart)));
  }
  return out;
}

Result<void> look(service::Context& context) {
  PEN_TRY(read(context.config()));
  return {};
}

Result<service::Hooks> start(service::Context& context) {
  PEN_TRY_ASSIGN(auto reading, read(context.config()));
  reading.dns.max_under_way = std::size_t{ipc::route::kQuestions} * ipc::route::kMaxUnderWay;
  for (const auto& [name, transport] : reading.transports)
    reading.dns.dnssec = reading.dns.dnssec || transport.hosts.dnssec;
  for (const auto& problem : reading.resolve->problems()) log::warning("{}", map::advice(problem));
  for (const auto& [name, transport] : reading.transports)
    for (const auto& problem : transport.tls.problems()) log::warning("{}: {}", name, problem);
  auto server = std::make_shared<Server>(context, std::move(reading.dns), std::move(reading.resolve),
                                         std::move(reading.transports));
  if (reading.for_probes) {
    for (const auto& problem : reading.for_probes->problems()) log::warning("address probes: {}", map::advice(problem));
    server->router.route_probes_by(std::move(reading.for_probes));
  }
  service::serve_conversations(context, {{ipc::route::kName, [server](ipc::Opening o) {
                                            return serve_routes(server->context.loop(), server->router, std::move(o),
                                                                server->counts, server->context.draining());
                                          }}});
  service::Hooks hooks;
  hooks.status = [server] { return server->status(); };
  return hooks;
}

}  // namespace
}  // namespace pen::rewrite

int main(int argc, char** argv) {
  return pen::service::run(
      argc, argv, {.name = "trivial-rewrite", .summary = "routes recipients for qmgr", .look = pen::rewrite::look},
      pen::rewrite::start);
}
