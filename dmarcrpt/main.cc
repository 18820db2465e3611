/// dmarcrpt: gathers what DMARC said of mail, and reports it to the domains that it came from. See man/dmarcrpt.8.
#include <fmt/format.h>

#include <memory>

#include "dmarcrpt/report.h"
#include "dmarcrpt/targets.h"
#include "lib/base/log.h"
#include "lib/base/log_handlers.h"
#include "lib/net/dns.h"
#include "lib/receive/intake/from_settings.h"
#include "lib/receive/intake/program_intake.h"
#include "lib/receive/resolve/from_settings.h"
#include "lib/receive/resolve/name_servers.h"
#include "lib/send/daily_reports/reporter.h"
#include "lib/suite/service/conversations.h"
#include "lib/trust/dmarc/record.h"

namespace {

using namespace pen;
using namespace pen::dmarcrpt;
namespace conversation = ipc::dmarc_report;
using Channel = ipc::Channel<conversation::ToDmarcrpt, conversation::FromDmarcrpt>;
using Store = daily_reports::Store<DomainDay>;
using daily_reports::Target;
using daily_reports::Wanted;

constexpr std::size_t kThreads = 4;  // writing the store, composing reports

class Reports : public daily_reports::Reporter<DomainDay> {
 public:
  Reports(daily_reports::Tools tools, net::Resolver& dns, Submitter from,
          std::shared_ptr<const dmarc::Suffixes> suffixes, std::shared_ptr<Store> store)
      : Reporter(tools, "DMARC report", from.sender, from.host, std::move(store)),
        loop_(tools.loop),
        random_(secure_random_u64()),
        dns_(dns),
        from_(std::move(from)),
        suffixes_(std::move(suffixes)) {}

 private:
  /// The texts at a name; nullopt: DNS has not answered.
  async::Task<std::optional<std::vector<std::string>>> texts_at(std::string name) {
    const net::DnsAnswer answer = co_await dns_.lookup(std::move(name), net::RecordType::txt);
    if (answer.outcome == net::DnsOutcome::temporary) co_return std::nullopt;
    std::vector<std::string> texts;
    for (const auto& record : answer.records) texts.push_back(record.data);
    co_return texts;
  }
  /// The record as it is now: its addresses may have changed since the mail came.
  async::Task<Wanted> who_wants(std::string domain) override {
    const auto texts = co_await texts_at("_dmarc." + domain);
    if (!texts) co_return Wanted{};
    Wanted out{.known = true, .targets = {}};
    std::string rua;
    std::size_t records = 0;
    for (const std::string& text : *texts) {
      if (!dmarc::Record::is_one(text)) continue;
      ++records;
      if (auto record = dmarc::Record::parse(text)) rua = record->report_uris;
    }
    if (records != 1) co_return out;
    for (Rua& one : read_rua(rua)) {
      if (is_outside(one.address, domain, suffixes_.get())) {
        const auto said = co_await texts_at(consent_name(domain, one.address));
        if (!said) {
          out.known = false;
          continue;
        }
        if (!consents(*said)) {
          log::info("DMARC report for {}: {} has not consented ({})", domain, one.address,
                    consent_name(domain, one.address));
          continue;
        }
      }
      out.targets.push_back({Target::Kind::mail, std::move(one.address), one.max_size});
    }
    co_return out;
  }
  /// Nothing was kept of a day that met the bounds of all.
  bool worth(const DomainDay& day) const override { return takes_mail(day) && !day.rows.empty(); }
  std::string message(const DomainDay& day, const Target& target) override {
    std::string compressed = daily_reports::compress(report_xml(day, from_));
    const std::uint64_t limit = target.max_size;
    // A target with a limit gets the most frequent kinds of mail, as many as fit.
    for (DomainDay less = day; limit > 0 && compressed.size() > limit && !less.rows.empty();) {
      for (std::size_t keep = less.rows.size() / 2; less.rows.size() > keep; less.rows.pop_back())
        less.beyond += less.rows.back().count;
      compressed = daily_reports::compress(report_xml(less, from_));
    }
    return report_mail(day, from_, target.value, compressed, loop_.clock().wall_now(), random_);
  }
  Result<void> post(const DomainDay&, const std::string&) override { PEN_CHECK(false, "there are only mail targets"); }

  async::Loop& loop_;
  Random random_;
  net::Resolver& dns_;
  Submitter from_;
  std::shared_ptr<const dmarc::Suffixes> suffixes_;
};

struct Server {
  Server(service::Context& context, net::ResolverOptions dns_options, std::shared_ptr<const resolve::Resolve> resolver,
         std::shared_ptr<const dmarc::Suffixes> suffixes, std::shared_ptr<Store> store)
      : loop(context.loop()),
        pool(loop, kThreads),
        dns(loop, pool, std::move(dns_options)),
        own(loop, pool, context.queue_path(ipc::kQmgrSocket), std::move(resolver),
            intake::for_own_mail(context.settings()), {log::as_info, log::as_warning}),
        draining(context.draining()),
        reports({.loop = loop, .pool = pool, .intake = own.intake, .draining = draining}, dns,
                {.host = context.settings().myhostname,
                 .organization = context.settings().dmarc_report_organization,
                 .contact = context.settings().dmarc_report_contact,
                 .sender = context.settings().dmarc_report_sender},
                std::move(suffixes), std::move(store)) {}

  async::Loop& loop;
  async::HandlerPool pool;
  net::Resolver dns;
  intake::ProgramIntake own;
  async::Cancel& draining;
  Reports reports;
  std::uint64_t results = 0, not_taken = 0;
};

void take(Server& server, const conversation::Result& result) {
  ++server.results;
  if (!add(server.reports.days(), result, server.loop.clock().wall_now())) ++server.not_taken;
}

async::Task<Result<void>> gather(std::shared_ptr<Server> server, Channel channel) {
  return daily_reports::gather<conversation::Result, conversation::Send, conversation::Sent>(std::move(server),
                                                                                             std::move(channel), take);
}

async::Task<void> drain(std::shared_ptr<Server> server) { co_await server->reports.write_changes(); }

std::vector<std::string> status(const Server& s) {
  return {fmt::format("gathered: results {}, not taken {}, domain days {}", s.results, s.not_taken,
                      s.reports.days().size()),
          s.reports.counts()};
}

struct Reading {
  std::shared_ptr<const resolve::Resolve> resolve;
  net::ResolverOptions dns;
};

Result<Reading> read(const config::Settings& s) {
  Reading out;
  PEN_TRY_ASSIGN(out.resolve, resolve::Resolve::open(resolve::from_settings(s)));
  PEN_TRY_ASSIGN(out.dns, resolve::name_servers(s, resolve::read_resolv_conf()));
  return out;
}

Result<void> look(service::Context& context) {
  PEN_TRY(read(context.settings()));
  return {};
}

Result<service::Hooks> start(service::Context& context) {
  const config::Settings& settings = context.settings();
  PEN_TRY_ASSIGN(auto reading, read(settings));
  PEN_TRY_ASSIGN(auto store, Store::open(settings.data_directory + "/dmarcrpt", "DMARC reports"));
  std::shared_ptr<const dmarc::Suffixes> suffixes;
  if (!settings.dmarc_public_suffix_file.empty()) {
    if (auto read = dmarc::Suffixes::read(settings.dmarc_public_suffix_file))
      suffixes = *std::move(read);
    else  // then more addresses must consent
      log::warning("dmarc_public_suffix_file: {}", read.error().message());
  }
  auto server = std::make_shared<Server>(context, std::move(reading.dns), std::move(reading.resolve),
                                         std::move(suffixes), std::move(store));
  server->reports.restore();
  server->own.queue.start();
  server->reports.start();
  service::serve_conversations(
      context, {{conversation::kName, [server](ipc::Opening o) { return gather(server, Channel(std::move(o))); }}});
  return service::Hooks{.drain = [server] { return drain(server); }, .status = [server] { return status(*server); }};
}

}  // namespace

int main(int argc, char** argv) {
  return pen::service::run(
      argc, argv, {.name = "dmarcrpt", .summary = "gathers and sends reports on DMARC (RFC 9990)", .look = look},
      start);
}
