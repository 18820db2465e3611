/// tlsrpt: gathers how TLS with other hosts went, and reports it to their domains. See man/tlsrpt.8.
#include <fmt/format.h>

#include <memory>

#include "lib/base/log.h"
#include "lib/base/log_handlers.h"
#include "lib/net/dns.h"
#include "lib/receive/intake/from_settings.h"
#include "lib/receive/intake/program_intake.h"
#include "lib/receive/resolve/from_settings.h"
#include "lib/receive/resolve/name_servers.h"
#include "lib/send/daily_reports/reporter.h"
#include "lib/suite/service/conversations.h"
#include "lib/trust/mta_sts/store.h"
#include "tlsrpt/announced.h"
#include "tlsrpt/post.h"
#include "tlsrpt/record.h"
#include "tlsrpt/report.h"
#include "tlsrpt/sts.h"

namespace {

using namespace pen;
using namespace pen::tlsrpt;
namespace conversation = ipc::tls_report;
using Channel = ipc::Channel<conversation::ToTlsrpt, conversation::FromTlsrpt>;

constexpr std::size_t kThreads = 8;  // writing the store, posting

using Days = daily_reports::Days<DomainDay>;
using Store = daily_reports::Store<DomainDay>;

class Reports : public daily_reports::Reporter<DomainDay> {
 public:
  Reports(daily_reports::Tools tools, net::Resolver& dns, Submitter from, PostOptions posting,
          std::shared_ptr<Store> store)
      : Reporter(tools, "TLS report", from.sender, from.host, std::move(store)),
        loop_(tools.loop),
        random_(secure_random_u64()),
        dns_(dns),
        from_(std::move(from)),
        posting_(std::move(posting)) {}

 private:
  async::Task<daily_reports::Wanted> who_wants(std::string domain) override {
    const net::DnsAnswer answer = co_await dns_.lookup("_smtp._tls." + domain, net::RecordType::txt);
    daily_reports::Wanted out;
    out.known = answer.outcome != net::DnsOutcome::temporary;
    std::vector<std::string> texts;
    for (const auto& record : answer.records) texts.push_back(record.data);
    out.targets = read_records(texts);
    co_return out;
  }
  /// Nothing was kept of a day that met the bounds of all.
  bool worth(const DomainDay& day) const override { return !day.policies.empty(); }
  std::string message(const DomainDay& day, const Target& target) override {
    const std::string compressed = daily_reports::compress(report_json(day, from_));
    return report_mail(day, from_, target.value, compressed, loop_.clock().wall_now(), random_);
  }
  Result<void> post(const DomainDay& day, const std::string& url) override {
    return post_report(url, daily_reports::compress(report_json(day, from_)), posting_);
  }

  async::Loop& loop_;
  Random random_;
  net::Resolver& dns_;
  Submitter from_;
  PostOptions posting_;
};

struct Server {
  Server(service::Context& context, net::ResolverOptions dns_options, std::shared_ptr<const resolve::Resolve> resolver,
         std::shared_ptr<Store> store)
      : loop(context.loop()),
        data_directory(context.settings().data_directory),
        pool(loop, kThreads),
        dns(loop, pool, std::move(dns_options)),
        own(loop, pool, context.queue_path(ipc::kQmgrSocket), std::move(resolver),
            intake::for_own_mail(context.settings()), {log::as_info, log::as_warning}),
        draining(context.draining()),
        reports({.loop = loop, .pool = pool, .intake = own.intake, .draining = draining}, dns,
                {.host = context.settings().myhostname,
                 .organization = context.settings().tlsrpt_organization,
                 .contact = context.settings().tlsrpt_contact,
                 .sender = context.settings().tlsrpt_sender},
                {.ca_file = context.settings().tlsrpt_CAfile, .agent = context.settings().mail_name + "-tlsrpt"},
                std::move(store)) {}

  async::Loop& loop;
  const std::string data_directory;
  async::HandlerPool pool;
  net::Resolver dns;
  intake::ProgramIntake own;
  std::shared_ptr<mta_sts::Store> policies = {};  // null: there are none
  std::optional<SteadyTime> look_again = {};      // for the policies; nullopt: MTA-STS is off, or they are there
  async::Cancel& draining;
  Reports reports;
  Announced announced = {};
  std::uint64_t attempts = 0, not_taken = 0;
  std::uint64_t forgotten = 0;  // announcements without room
  SteadyTime say_forgotten_again = {};
};

// trivial-rewrite makes the store, maybe later than we want to read it.
constexpr seconds kLookAgain{60};

// A place becomes free whenever a policy ends: without this pause the list could be full, and say so, each minute.
constexpr std::chrono::hours kSayAgain{24};

/// The policies that trivial-rewrite keeps.
void open_policies(Server& server) {
  if (!server.look_again || server.loop.now() < *server.look_again) return;
  auto policies = mta_sts::open_store_to_read(server.data_directory + "/mta_sts");
  if (!policies) {
    if (!policies.error().is_errno(ENOENT))
      log::warning("reports will not name MTA-STS policies: {}", policies.error().message());
    server.look_again = server.loop.now() + kLookAgain;
    return;
  }
  server.policies = *std::move(policies);
  server.look_again.reset();
}

void remember(Server& server, const conversation::Attempt& announcement) {
  const SteadyTime now = server.loop.now();
  if (server.announced.take(announcement, now)) return;
  ++server.forgotten;
  if (now < server.say_forgotten_again) return;
  server.say_forgotten_again = now + kSayAgain;
  log::warning(
      "a server of policies tells of the policies of more than {} domains: results of others, as {}, are "
      "reported without the policy that it names",
      Announced::kMost, announcement.domain);
}

void take(Server& server, conversation::Attempt& attempt) {
  if (attempt.announced > 0) return remember(server, attempt);
  ++server.attempts;
  server.announced.name(attempt, server.loop.now());
  open_policies(server);
  const WallTime now = server.loop.clock().wall_now();
  if (server.policies) name_sts_policy(attempt, server.policies->get(attempt.domain), now);
  if (!add(server.reports.days(), attempt, now)) ++server.not_taken;
}

async::Task<Result<void>> gather(std::shared_ptr<Server> server, Channel channel) {
  return daily_reports::gather<conversation::Attempt, conversation::Send, conversation::Sent>(std::move(server),
                                                                                              std::move(channel), take);
}

async::Task<void> drain(std::shared_ptr<Server> server) { co_await server->reports.write_changes(); }

std::vector<std::string> status(const Server& s) {
  return {fmt::format("gathered: attempts {}, not taken {}, domain days {}, announced policies {}, without room {}",
                      s.attempts, s.not_taken, s.reports.days().size(), s.announced.size(), s.forgotten),
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
  PEN_TRY_ASSIGN(auto reading, read(context.settings()));
  PEN_TRY_ASSIGN(auto store, Store::open(context.settings().data_directory + "/tlsrpt", "TLS reports"));
  auto server = std::make_shared<Server>(context, std::move(reading.dns), std::move(reading.resolve), std::move(store));
  if (context.settings().smtp_mta_sts_enable) server->look_again = context.loop().now();
  open_policies(*server);
  server->reports.restore();
  server->own.queue.start();
  server->reports.start();
  service::serve_conversations(
      context, {{conversation::kName, [server](ipc::Opening o) { return gather(server, Channel(std::move(o))); }}});
  return service::Hooks{.drain = [server] { return drain(server); }, .status = [server] { return status(*server); }};
}

}  // namespace

int main(int argc, char** argv) {
  pen::tlsrpt::post_start();
  return pen::service::run(
      argc, argv, {.name = "tlsrpt", .summary = "gathers and sends reports on TLS (RFC 8460)", .look = look}, start);
}
