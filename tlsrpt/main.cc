/// tlsrpt: gathers how TLS with other hosts went, and reports it to their domains. See man/tlsrpt.8.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/intake/derived.h"
#include "lib/intake/enqueue_client.h"
#include "lib/intake/from_settings.h"
#include "lib/mail/queue_id.h"
#include "lib/mta_sts/store.h"
#include "lib/net/dns.h"
#include "lib/resolve/from_settings.h"
#include "lib/resolve/name_servers.h"
#include "lib/service/conversations.h"
#include "tlsrpt/post.h"
#include "tlsrpt/record.h"
#include "tlsrpt/report.h"
#include "tlsrpt/store.h"
#include "tlsrpt/sts.h"

namespace {

using namespace pen;
using namespace pen::tlsrpt;
namespace conversation = ipc::tls_report;
using Channel = ipc::Channel<conversation::ToTlsrpt, conversation::FromTlsrpt>;

constexpr std::size_t kThreads = 8;  // writing the store, posting
constexpr seconds kWriteEach{5};     // what a kill may cost
constexpr seconds kLookEach{60};     // for reports whose time has come
constexpr std::size_t kAtOnce = 8;   // reports being looked up, queued and posted
constexpr seconds kRetryEach{900};   // of a report that could not be handed over, within a day (RFC 8460 section 5.5)

std::uint64_t seed_of(const std::string& host) {
  std::uint64_t h = 0;
  for (const char c : host) h = h * 31 + static_cast<unsigned char>(c);
  return h;
}

struct Server {
  Server(service::Context& context, net::ResolverOptions dns_options, std::shared_ptr<const resolve::Resolve> resolver,
         std::shared_ptr<Store> opened)
      : loop(context.loop()),
        random(secure_random_u64()),
        pool(loop, kThreads),
        dns(loop, pool, std::move(dns_options)),
        queue(loop, context.queue_path(ipc::kQmgrSocket)),
        ids(loop.clock(), Random(secure_random_u64())),
        intake{.loop = loop,
               .pool = pool,
               .queue = queue,
               .resolve = std::move(resolver),
               .settings = intake::for_own_mail(context.settings()),
               .next_queue_id = [this] { return ids.next(); },
               .log_info = [](const std::string& line) { log::info("{}", line); },
               .log_warning = log::as_warning},
        from{.host = context.settings().myhostname,
             .organization = context.settings().tlsrpt_organization,
             .contact = context.settings().tlsrpt_contact,
             .sender = context.settings().tlsrpt_sender},
        gathering(seed_of(from.host)),
        store(std::move(opened)),
        room(loop, kAtOnce),
        draining(context.draining()),
        posting{.ca_file = context.settings().tlsrpt_CAfile, .agent = context.settings().mail_name + "-tlsrpt"} {}

  async::Loop& loop;
  Random random;
  async::HandlerPool pool;
  net::Resolver dns;
  intake::EnqueueClient queue;
  mail::QueueIdGenerator ids;
  intake::Intake intake;
  Submitter from;
  Gathering gathering;
  std::shared_ptr<Store> store;
  std::shared_ptr<mta_sts::Store> policies = {};  // null: MTA-STS is off
  async::Semaphore room;
  async::Cancel& draining;
  PostOptions posting;
  // Days being reported (kNever), and those that are tried again, and when.
  std::map<std::pair<std::int64_t, std::string>, SteadyTime> in_hand;
  std::uint64_t attempts = 0, not_taken = 0, mailed = 0, posted = 0, not_wanted = 0, failed = 0;
};

/// Writes what has changed. Errors are logged: what has gathered is still in memory, and changes again soon.
async::Task<void> write_changes(std::shared_ptr<Server> server) {
  auto changes = server->gathering.take_changes();
  if (changes.empty()) co_return;
  auto work = [store = server->store, changes = std::move(changes)] { return store->write(changes); };
  const auto written = co_await server->pool.run(std::move(work));
  if (!written) log::warning("what has gathered is not on disk: {}", written.error().message());
}

async::Task<void> keep_written(std::shared_ptr<Server> server) {
  while (co_await server->loop.sleep(kWriteEach, {.deadline = kNever, .cancel = &server->draining}))
    co_await write_changes(server);
}

/// Queues one report. False: it could not be, and is worth another try.
async::Task<bool> mail_report(std::shared_ptr<Server> server, const DomainDay* day, std::string address) {
  intake::Derived message;
  message.envelope.sender = server->from.sender;
  message.envelope.client.protocol = "local";
  message.envelope.recipients.push_back(
      {.address = address, .original = {}, .orcpt = {}, .notify = mail::notify::kNever});
  message.before = report_mail(*day, server->from, address, compress(report_json(*day, server->from)),
                               server->loop.clock().wall_now(), server->random);
  const async::Until until{.deadline = server->loop.now() + server->intake.settings.enqueue_timeout};
  auto queue_id = co_await intake::enqueue_derived(server->intake, std::move(message), until);
  if (!queue_id) {
    log::warning("cannot queue the TLS report for {}: {}", day->domain, queue_id.error().message());
    co_return false;
  }
  ++server->mailed;
  log::info("{}: TLS report for {} to {}", *queue_id, day->domain, address);
  co_return true;
}

/// Posts one report. False: it was not taken, and is worth another try.
async::Task<bool> post(std::shared_ptr<Server> server, const DomainDay* day, std::string url) {
  auto work = [url, body = compress(report_json(*day, server->from)), options = server->posting] {
    return post_report(url, body, options);
  };
  const auto posted = co_await server->pool.run(std::move(work));
  if (!posted) {
    log::warning("TLS report for {} to {}: {}", day->domain, url, printable(posted.error().message(), 300));
    co_return false;
  }
  ++server->posted;
  log::info("TLS report for {} posted to {}", day->domain, url);
  co_return true;
}

/// Hands the day to everyone who wants it and has not got it. Returns how many took it; `all`: whether none is left.
async::Task<std::uint64_t> hand_over(std::shared_ptr<Server> server, const DomainDay* day, std::vector<Target> targets,
                                     bool* all) {
  std::uint64_t sent = 0;
  *all = true;
  for (const Target& target : targets) {
    if (std::ranges::find(day->reached, target.value) != day->reached.end()) continue;
    const bool taken = target.kind == Target::Kind::mail ? co_await mail_report(server, day, target.value)
                                                         : co_await post(server, day, target.value);
    if (taken) server->gathering.note_reached(day->day, day->domain, target.value);
    sent += taken ? 1 : 0;
    *all = *all && taken;
  }
  co_return sent;
}

/// One domain's day: asks who wants a report and sends it. now: even if it was tried a while ago. Returns how many
/// took it.
async::Task<std::uint64_t> report(std::shared_ptr<Server> server, std::int64_t number, std::string domain, bool now) {
  const auto key = std::pair(number, domain);
  const auto [at, mine] = server->in_hand.try_emplace(key, kNever);
  if (!mine && (at->second == kNever || (!now && at->second > server->loop.now()))) co_return 0;
  at->second = kNever;  // nobody else takes it meanwhile
  const net::DnsAnswer answer = co_await server->dns.lookup("_smtp._tls." + domain, net::RecordType::txt);
  std::uint64_t sent = 0;
  bool all = answer.outcome != net::DnsOutcome::temporary;
  std::vector<std::string> texts;
  for (const auto& record : answer.records) texts.push_back(record.data);
  const auto* known = server->gathering.find(number, domain);
  if (known != nullptr && all) {
    const auto targets = read_records(texts);
    if (targets.empty()) ++server->not_wanted;
    const DomainDay day = *known;  // a copy: what is gathered may change while it is handed over
    sent = co_await hand_over(server, &day, targets, &all);
    const WallTime last_try = server->gathering.send_time(number, domain) + std::chrono::days(1);
    if (!all && server->loop.clock().wall_now() > last_try) {
      log::warning("TLS report for {} could not be handed over for a day and is dropped", domain);
      all = true;
    }
  }
  if (all) {
    server->gathering.remove(number, domain);
    server->in_hand.erase(key);
  } else {
    ++server->failed;
    server->in_hand[key] = server->loop.now() + kRetryEach;
  }
  co_return sent;
}

struct Round {
  explicit Round(async::Loop& loop) : gate(loop) {}
  std::uint64_t sent = 0;
  async::Gate gate;  // last: its tasks die first
};

async::Task<void> one_of(std::shared_ptr<Server> server, Round* round, std::int64_t day, std::string domain, bool now) {
  round->sent += co_await report(server, day, std::move(domain), now);
  server->room.release();
}

/// Sends what is due; all: everything that has gathered.
async::Task<std::uint64_t> send_due(std::shared_ptr<Server> server, bool all) {
  Round round(server->loop);
  const WallTime now = server->loop.clock().wall_now();
  std::erase_if(server->in_hand, [&](const auto& one) {
    return server->gathering.find(one.first.first, one.first.second) == nullptr && one.second != kNever;
  });
  if (const std::size_t old = server->gathering.drop_old(now); old > 0)
    log::warning("{} TLS reports could not be sent for days and are dropped", old);
  for (const auto& [day, domain] : server->gathering.due(now, all)) {
    if (!co_await server->room.acquire({.deadline = kNever, .cancel = &server->draining})) break;
    round.gate.spawn("report " + domain, one_of(server, &round, day, domain, all));
  }
  (void)co_await round.gate.drained({});
  co_await write_changes(server);
  co_return round.sent;
}

async::Task<void> keep_reporting(std::shared_ptr<Server> server) {
  do {
    co_await send_due(server, false);
  } while (co_await server->loop.sleep(kLookEach, {.deadline = kNever, .cancel = &server->draining}));
}

async::Task<Result<void>> gather(std::shared_ptr<Server> server, Channel channel) {
  for (;;) {
    PEN_CO_TRY_ASSIGN(auto received, co_await channel.receive({.cancel = &server->draining}));
    if (auto* attempt = std::get_if<conversation::Attempt>(&received.message)) {
      ++server->attempts;
      const WallTime now = server->loop.clock().wall_now();
      if (server->policies) name_sts_policy(*attempt, server->policies->get(attempt->domain), now);
      if (!server->gathering.add(*attempt, now)) ++server->not_taken;
      continue;
    }
    conversation::Sent sent;
    sent.request = std::get<conversation::Send>(received.message).request;
    sent.reports = co_await send_due(server, true);
    PEN_CO_TRY(channel.send(sent));
    PEN_CO_TRY(co_await channel.flush({.deadline = server->loop.now() + seconds(30)}));
  }
}

async::Task<void> drain(std::shared_ptr<Server> server) { co_await write_changes(server); }

std::vector<std::string> status(const Server& s) {
  return {
      fmt::format("gathered: attempts {}, not taken {}, domain days {}", s.attempts, s.not_taken, s.gathering.size()),
      fmt::format("reports: mailed {}, posted {}, not wanted {}, to be tried again {}", s.mailed, s.posted,
                  s.not_wanted, s.failed)};
}

Result<service::Hooks> start(service::Context& context) {
  PEN_TRY_ASSIGN(auto resolver, resolve::Resolve::open(resolve::from_settings(context.settings())));
  PEN_TRY_ASSIGN(auto dns, resolve::name_servers(context.settings(), resolve::read_resolv_conf()));
  PEN_TRY_ASSIGN(auto store, Store::open(context.settings().data_directory + "/tlsrpt"));
  if (!store->warning().empty()) log::warning("{}", store->warning());
  auto stored = store->load();
  if (!stored) log::warning("what had gathered cannot be read: {}", stored.error().message());
  auto server = std::make_shared<Server>(context, std::move(dns), std::move(resolver), std::move(store));
  if (context.settings().smtp_mta_sts_enable) {
    auto policies = mta_sts::open_store(context.settings().data_directory + "/mta_sts");
    if (policies)
      server->policies = *std::move(policies);
    else
      log::warning("reports will not name MTA-STS policies: {}", policies.error().message());
  }
  if (stored)
    for (auto& day : *stored) server->gathering.restore(std::move(day));
  server->queue.start();
  context.loop().spawn("store", keep_written(server));
  context.loop().spawn("reports", keep_reporting(server));
  service::serve_conversations(
      context, {{conversation::kName, [server](ipc::Opening o) { return gather(server, Channel(std::move(o))); }}});
  return service::Hooks{.drain = [server] { return drain(server); }, .status = [server] { return status(*server); }};
}

}  // namespace

int main(int argc, char** argv) {
  pen::tlsrpt::post_start();
  return pen::service::run(argc, argv, {.name = "tlsrpt", .summary = "gathers and sends reports on TLS (RFC 8460)"},
                           start);
}
