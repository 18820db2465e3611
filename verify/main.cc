/// verify: knows which addresses mail can be delivered to, and finds out by probes. See man/verify.8.
#include <fmt/format.h>

#include <memory>
#include <unordered_map>

#include "lib/base/log.h"
#include "lib/base/log_handlers.h"
#include "lib/net/redis/server.h"
#include "lib/net/redis/shared_hints.h"
#include "lib/receive/intake/derived.h"
#include "lib/receive/intake/from_settings.h"
#include "lib/receive/intake/program_intake.h"
#include "lib/receive/resolve/from_settings.h"
#include "lib/receive/resolve/probe_sender.h"
#include "lib/suite/ipc/topology.h"
#include "lib/suite/service/conversations.h"
#include "verify/file.h"
#include "verify/verifier.h"

namespace {

using namespace pen;
using namespace pen::verify;
namespace conversation = ipc::verify;
using Channel = ipc::Channel<conversation::ToVerify, conversation::FromVerify>;
using ResultChannel = ipc::Channel<conversation::ToProbed, conversation::FromProbed>;

constexpr std::size_t kThreads = 2;
constexpr std::size_t kDropped = 1000;  // expired entries in one turn of the loop
constexpr std::size_t kListedBytes = std::size_t{512} << 10;
constexpr std::uint32_t kListed = 1000;  // entries in one answer, below the longest frame
constexpr seconds kLookForLost{60};      // probes without a result
constexpr seconds kComplainEach{60};     // of probes that cannot be sent

CacheRules rules_of(const config::Settings& s) {
  const auto whole = [](milliseconds time) { return std::chrono::ceil<seconds>(time); };
  return {.good_expires = whole(s.address_verify_positive_expire_time),
          .good_refresh = whole(s.address_verify_positive_refresh_time),
          .failed_expires = whole(s.address_verify_negative_expire_time),
          .failed_refresh = whole(s.address_verify_negative_refresh_time),
          .keep_failed = s.address_verify_negative_cache};
}

/// Mail that passes through the queue needs room beside probes, whatever strangers ask.
std::size_t pending_of(const config::Settings& s) {
  return static_cast<std::size_t>(std::max<std::int64_t>(
      1, std::min<std::int64_t>(s.address_verify_pending_request_limit, s.qmgr_message_active_limit / 4)));
}

struct Server {
  Server(service::Context& context, std::shared_ptr<const resolve::Resolve> resolver, std::string directory)
      : loop(context.loop()),
        pool(loop, kThreads),
        own(loop, pool, context.queue_path(ipc::kQmgrSocket), std::move(resolver),
            intake::for_own_mail(context.settings()), {log::as_info, log::as_warning}),
        as_probe{.inspected = false, .detect_smtputf8 = intake::detects_smtputf8(context.settings(), "verify")},
        sender(resolve::probe_sender(context.settings())),
        verifier(rules_of(context.settings()), pending_of(context.settings())),
        file(loop, directory, verifier.cache()),
        name(directory.empty() ? "in memory" : directory),
        clean_each(context.settings().address_verify_cache_cleanup_interval),
        loaded(loop),
        draining(context.draining()) {}

  async::Loop& loop;
  async::HandlerPool pool;
  intake::ProgramIntake own;
  intake::OwnMail as_probe;
  resolve::ProbeSender sender;
  Verifier verifier;
  File file;
  std::unique_ptr<redis::SharedHints> cluster;  // nullptr: no host shares anything
  std::string name;                             // of the cache, for the log
  milliseconds clean_each;
  async::Event loaded;
  async::Cancel& draining;
  // Of the probes in the queue: rewriting may change an address, so that its result has another one.
  std::unordered_map<std::string, std::string> sent_as;
  std::unordered_map<ClientNumber, Channel*> clients;  // each lives in its session's frame
  ClientNumber next_client = 1;
  std::uint64_t asked = 0, sent = 0, results = 0, unsent = 0, shared = 0;
  SteadyTime complained{};

  WallTime wall() const { return loop.clock().wall_now(); }
  /// Answers are small, and a client has at most one for each probe under way.
  void tell(const std::vector<Verifier::Answer>& answers) {
    for (const auto& a : answers) {
      const auto at = clients.find(a.client);
      if (at != clients.end() && at->second->is_open()) (void)at->second->send(a.answer);
    }
  }
};

/// Sends a probe through the queue, unless another host knows the address; its result comes from qmgr.
async::Task<void> probe(std::shared_ptr<Server> server, std::string address) {
  if (server->cluster) {
    const std::string key = Cache::key_of(address);
    if (const auto record = co_await server->cluster->find(key)) {
      server->verifier.cache().take(key, *record, server->wall(), false);
      server->file.write_soon();
      std::vector<Verifier::Answer> answers;
      if (server->verifier.answered_elsewhere(address, server->wall(), answers)) {
        ++server->shared;
        server->tell(answers);
        co_return;
      }
    }
  }
  intake::Derived message;
  message.queue_id = server->own.ids.next();
  const std::string queue_id = message.queue_id;
  server->sent_as[queue_id] = address;
  mail::Envelope& e = message.envelope;
  e.sender = server->sender.at(server->wall());
  e.client.protocol = "local";
  e.purpose = mail::Purpose::verification;
  e.recipients.push_back({.address = address, .original = {}, .orcpt = {}, .notify = 0});
  message.before = "Subject: probe\r\n\r\n";
  message.keep_sender = true;
  message.own = server->as_probe;
  const async::Until until{.deadline = server->loop.now() + server->own.intake.settings.enqueue_timeout};
  const auto queued = co_await intake::enqueue_derived(server->own.intake, std::move(message), until);
  if (queued) {
    ++server->sent;
    co_return;
  }
  ++server->unsent;
  server->sent_as.erase(queue_id);
  server->tell(server->verifier.not_sent(address, "The address cannot be probed now"));
  const SteadyTime now = server->loop.now();
  if (server->complained != SteadyTime{} && now < server->complained + kComplainEach) co_return;
  server->complained = now;
  log::warning("cannot queue the probe of <{}>: {} ({} so far)", address, queued.error().message(), server->unsent);
}

struct Client {
  Client(Server& s, Channel& channel) : server(s), number(s.next_client++) { server.clients[number] = &channel; }
  ~Client() {
    server.clients.erase(number);
    server.verifier.gone(number);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  Server& server;
  ClientNumber number;
};

void take(std::shared_ptr<Server>& server, Client& client, Channel& channel, const conversation::Ask& ask) {
  ++server->asked;
  const auto asked = server->verifier.ask(client.number, ask.request, ask.address, server->wall());
  (void)channel.send(asked.answer);  // small, as all answers
  if (!asked.probe) return;
  server->file.write_soon();
  server->loop.spawn("probe", probe(server, ask.address));
}

void take(std::shared_ptr<Server>& server, Client&, Channel& channel, const conversation::List& list) {
  conversation::Listed out;
  out.request = list.request;
  const auto& cache = server->verifier.cache();
  const std::string key = Cache::key_of(list.address);
  if (list.only) {
    if (auto entry = cache.entry(key)) out.entries.push_back(*std::move(entry));
  } else {
    const std::size_t most = std::clamp<std::uint32_t>(list.most, 1, kListed);
    out.entries = cache.list(key, most + 1);
    std::size_t fit = 0;
    for (std::size_t bytes = 0; fit < std::min(most, out.entries.size()) && bytes < kListedBytes; ++fit)
      bytes += out.entries[fit].address.size() + out.entries[fit].text.size() + 64;
    out.more = out.entries.size() > fit;
    out.entries.resize(fit);
  }
  for (auto& entry : out.entries) entry.under_way = server->verifier.under_way(entry.address);
  (void)channel.send(out);
}

void take(std::shared_ptr<Server>& server, Client&, Channel& channel, const conversation::Forget& forget) {
  const std::string key = Cache::key_of(forget.address);
  const bool known = server->verifier.cache().forget(key);
  if (server->cluster) server->cluster->forget(key);
  server->file.write_soon();
  (void)channel.send(conversation::Forgotten{forget.request, known});
}

async::Task<Result<void>> answer(std::shared_ptr<Server> server, Channel channel) {
  if (auto loaded = co_await server->loaded.wait({.cancel = &server->draining}); !loaded)
    co_return std::unexpected(std::move(loaded).error());
  Client client(*server, channel);
  for (;;) {
    PEN_CO_TRY_ASSIGN(const auto received, co_await channel.receive({.cancel = &server->draining}));
    std::visit([&](const auto& m) { take(server, client, channel, m); }, received.message);
    if (channel.congested()) PEN_CO_TRY(co_await channel.flush({.deadline = server->loop.now() + seconds(30)}));
  }
}

async::Task<Result<void>> take_results(std::shared_ptr<Server> server, ResultChannel channel) {
  if (auto loaded = co_await server->loaded.wait({.cancel = &server->draining}); !loaded)
    co_return std::unexpected(std::move(loaded).error());
  for (;;) {
    PEN_CO_TRY_ASSIGN(const auto received, co_await channel.receive({.cancel = &server->draining}));
    const auto& probed = std::get<conversation::Probed>(received.message);
    ++server->results;
    const auto known = server->sent_as.find(probed.queue_id);
    const std::string address = known == server->sent_as.end() ? probed.address : known->second;
    if (known != server->sent_as.end()) server->sent_as.erase(known);
    const Outcome outcome = outcome_of(probed.results);
    server->tell(server->verifier.ended(address, outcome.state, outcome.text, server->wall()));
    server->file.write_soon();
    const std::string key = Cache::key_of(address);
    if (const auto record = server->cluster ? server->verifier.cache().record(key) : std::nullopt)
      server->cluster->tell(key, *record, server->verifier.cache().holds_for(key, server->wall()));
  }
}

async::Task<void> load(std::shared_ptr<Server> server) {
  co_await server->file.open();
  server->loaded.set();
}

async::Task<void> give_up_lost(std::shared_ptr<Server> server) {
  while (co_await server->loop.sleep(kLookForLost, {.cancel = &server->draining})) {
    server->tell(server->verifier.tick(server->wall()));
    std::erase_if(server->sent_as, [&](const auto& sent) { return !server->verifier.under_way(sent.second); });
  }
}

async::Task<void> clean(std::shared_ptr<Server> server) {
  while (co_await server->loop.sleep(server->clean_each, {.cancel = &server->draining})) {
    std::size_t dropped = 0;
    for (;;) {
      const std::size_t now = server->verifier.cache().drop_expired(server->wall(), kDropped);
      dropped += now;
      if (now < kDropped) break;
      co_await server->loop.yield();
    }
    if (dropped > 0) server->file.write_soon();
    log::info("cache {} full cleanup: retained={} dropped={} entries", server->name, server->verifier.cache().size(),
              dropped);
  }
}

async::Task<void> leave(std::shared_ptr<Server> server) { co_await server->file.finish(); }

/// What the settings say, and the tables that they name.
struct Reading {
  std::shared_ptr<const resolve::Resolve> resolve;
  std::optional<redis::ClientOptions> cluster;  // nullopt: results are this host's alone
};

Result<Reading> read(const config::Config& config) {
  const config::Settings& s = config.settings();
  Reading out;
  PEN_TRY_ASSIGN(out.resolve, resolve::Resolve::open(resolve::from_config(config)));
  if (s.destdb_backend == config::DestdbBackend::redis) {
    PEN_TRY_ASSIGN(out.cluster, redis::client_options(s));
  }
  return out;
}

Result<void> look(service::Context& context) {
  PEN_TRY(read(context.config()));
  return {};
}

Result<service::Hooks> start(service::Context& context) {
  const auto& s = context.settings();
  PEN_TRY_ASSIGN(auto reading, read(context.config()));
  auto resolver = std::move(reading.resolve);
  for (const auto& problem : resolver->problems()) log::warning("{}", map::advice(problem));
  auto directory = cache_directory(s.address_verify_map);
  if (!directory)
    log::warning("{}: results of address probes are known to this process only", directory.error().message());
  auto server = std::make_shared<Server>(context, std::move(resolver), directory.value_or(""));
  if (reading.cluster) {
    auto options = *std::move(reading.cluster);
    options.seed = secure_random_u64();
    server->cluster = std::make_unique<redis::SharedHints>(
        context.loop(), std::move(options),
        s.destdb_redis_prefix + "verify:", [](bool shared, const std::string& line) {
          if (shared)
            log::info("address probes: {}", line);
          else
            log::warning("address probes: {}", line);
        });
    server->cluster->start();
  }
  server->own.queue.start();
  context.loop().spawn("load", load(server));
  context.loop().spawn("lost probes", give_up_lost(server));
  if (server->clean_each > milliseconds(0)) context.loop().spawn("cleanup", clean(server));
  service::serve_conversations(
      context, {{conversation::kName, [server](ipc::Opening o) { return answer(server, Channel(std::move(o))); }},
                {conversation::kProbedName,
                 [server](ipc::Opening o) { return take_results(server, ResultChannel(std::move(o))); }}});
  return service::Hooks{
      .drain = [server] { return leave(server); },
      .status =
          [server] {
            return std::vector<std::string>{
                fmt::format("addresses: {} known, {} probes under way", server->verifier.cache().size(),
                            server->verifier.probes()),
                fmt::format("questions {}, probes {}, not sent {}, results {}, known elsewhere {}", server->asked,
                            server->sent, server->unsent, server->results, server->shared)};
          }};
}

}  // namespace

int main(int argc, char** argv) {
  return pen::service::run(
      argc, argv, {.name = "verify", .summary = "finds out which addresses can be delivered to", .look = look}, start);
}
