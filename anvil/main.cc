/// anvil: counts SMTP sessions per session class and what clients do per time unit, and keeps the greylist, quotas and
/// the suppression list. See man/anvil.8.
#include <fmt/format.h>

#include <memory>
#include <unordered_map>

#include "anvil/ledger.h"
#include "anvil/memory.h"
#include "anvil/shared_greylist.h"
#include "anvil/shared_quotas.h"
#include "anvil/suppression.h"
#include "anvil/suppression_conversations.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/map/map.h"
#include "lib/net/redis/server.h"
#include "lib/suite/ipc/topology.h"
#include "lib/suite/service/conversations.h"
#include "lib/suite/sessions/clients.h"

namespace {

using namespace pen;
namespace conversation = ipc::sessions;
using Channel = ipc::Channel<conversation::ToAnvil, conversation::FromAnvil>;
using MemoryChannel = ipc::Channel<ipc::sender_memory::ToAnvil, ipc::sender_memory::FromAnvil>;
using ClientChannel = ipc::Channel<ipc::clients::ToAnvil, ipc::clients::FromAnvil>;
using anvil::Ledger;
using sessions::Clients;

struct Server {
  Server(async::Loop& loop_in, sessions::Classes classes, milliseconds rate_unit, const std::string& data_directory,
         anvil::Suppression::Options listed)
      : loop(loop_in),
        ledger(std::move(classes)),
        clients(rate_unit),
        memory(loop_in, data_directory, log::as_warning),
        suppression(loop_in, std::move(listed), log::as_warning) {}

  async::Loop& loop;
  Ledger ledger;
  Clients clients;
  anvil::Memory memory;
  anvil::Suppression suppression;
  std::unique_ptr<anvil::SharedGreylist> shared_greylist;  // nullptr, as the next: no host shares anything
  std::unique_ptr<anvil::SharedQuotas> shared_quotas;
  std::unordered_map<Ledger::Holder, Channel*> channels;  // each lives in its session's frame
  async::Loop::TimerHandle timer;

  /// Sends what the ledger decided. Messages are small and their number is bounded by that of the sessions.
  void settle() {
    for (const auto& send : ledger.take_actions()) {
      const auto at = channels.find(send.to);
      if (at == channels.end() || !at->second->is_open()) continue;  // its end is being noticed
      std::visit([&](const auto& m) { (void)at->second->send(m); }, send.message);
    }
    const SteadyTime wake = ledger.next_wake();
    timer.reset();
    if (wake == kNever) return;
    timer = loop.call_at(wake, [this] {
      ledger.set_time(loop.now());
      ledger.tick();
      settle();
    });
  }
};

/// One holder, from its Begin to the end of its connection.
struct Holding {
  Holding(Server& s, Channel& channel, const conversation::Begin& begin) : server(s), holder(begun(s, begin)) {
    server.channels[holder] = &channel;
    server.settle();
  }
  ~Holding() {
    server.channels.erase(holder);
    server.ledger.set_time(server.loop.now());
    server.ledger.end(holder);
    server.settle();
  }
  static Ledger::Holder begun(Server& s, const conversation::Begin& begin) {
    s.ledger.set_time(s.loop.now());
    return s.ledger.begin(begin);
  }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;

  /// False: it talks nonsense.
  bool take(const conversation::Take& m) { return server.ledger.take(holder, m); }
  bool take(const conversation::Release& m) {
    server.ledger.release(holder, m.lease);
    return true;
  }
  bool take(const conversation::Yielded& m) {
    server.ledger.yielded(holder, m);
    return true;
  }
  bool take(const conversation::Begin&) { return false; }
  bool take(const conversation::AskStatus&) { return false; }

  Server& server;
  Ledger::Holder holder;
};

/// What one smtpd reports of its clients.
struct ClientHolder {
  explicit ClientHolder(Server& s) : server(s), holder(s.clients.begin()) {}
  ~ClientHolder() { server.clients.end(holder); }
  ClientHolder(const ClientHolder&) = delete;
  ClientHolder& operator=(const ClientHolder&) = delete;

  void take(ClientChannel& channel, const ipc::clients::Count& m) {
    const auto counted = server.clients.count(m.event, m.client, m.look, server.loop.now(), wall());
    (void)channel.send(ipc::clients::Counted{m.request, counted.rate, counted.live});  // is small
  }
  void take(ClientChannel&, const ipc::clients::Enter& m) {
    server.clients.enter(holder, m.client, m.sessions, wall());
  }
  void take(ClientChannel&, const ipc::clients::Leave& m) { server.clients.leave(holder, m.client); }
  WallTime wall() const { return server.loop.clock().wall_now(); }

  Server& server;
  Clients::Holder holder;
};

async::Task<Result<void>> count_clients(std::shared_ptr<Server> server, ClientChannel channel) {
  ClientHolder holder(*server);
  for (;;) {
    PEN_CO_TRY_ASSIGN(const auto received, co_await channel.receive());
    std::visit([&](const auto& m) { holder.take(channel, m); }, received.message);
    if (channel.congested()) PEN_CO_TRY(co_await channel.flush({.deadline = server->loop.now() + seconds(30)}));
  }
}

// The next two wait for other hosts' knowledge beside other questions.
async::Task<void> ask_all_hosts(Server* server, MemoryChannel* channel, ipc::sender_memory::AskQuota question) {
  const auto answer = co_await server->shared_quotas->ask(std::move(question));
  if (channel->is_open()) (void)channel->send(answer);
}

async::Task<void> ask_all_hosts(Server* server, MemoryChannel* channel, ipc::sender_memory::AskGreylist question) {
  const std::uint64_t request = question.request;
  const auto answer = co_await server->shared_greylist->ask(std::move(question));
  if (channel->is_open()) (void)channel->send(ipc::sender_memory::Greylisted{request, answer.wait, answer.delayed});
}

async::Task<Result<void>> remember_senders(std::shared_ptr<Server> server, MemoryChannel channel) {
  co_await server->memory.ready();
  async::Gate questions(server->loop);  // ends before the channel
  for (;;) {
    PEN_CO_TRY_ASSIGN(auto received, co_await channel.receive());
    // The answers are small.
    if (auto* greylist = std::get_if<ipc::sender_memory::AskGreylist>(&received.message)) {
      if (server->shared_greylist) {
        questions.spawn("greylist", ask_all_hosts(server.get(), &channel, std::move(*greylist)));
      } else {
        const auto answer = server->memory.ask(*greylist);
        (void)channel.send(ipc::sender_memory::Greylisted{greylist->request, answer.wait, answer.delayed});
      }
    } else {
      auto& quota = std::get<ipc::sender_memory::AskQuota>(received.message);
      if (server->shared_quotas)
        questions.spawn("quota", ask_all_hosts(server.get(), &channel, std::move(quota)));
      else
        (void)channel.send(server->memory.ask(quota));
    }
    if (channel.congested()) PEN_CO_TRY(co_await channel.flush({.deadline = server->loop.now() + seconds(30)}));
  }
}

/// The list, which keeps its server.
std::shared_ptr<anvil::Suppression> list_of(const std::shared_ptr<Server>& server) {
  return {server, &server->suppression};
}

void log_statistics(Server& server) {
  for (const auto& line : server.clients.take_statistics()) log::info("{}", line);
  if (const auto uncounted = server.clients.take_uncounted(); uncounted != 0)
    log::warning(
        "{} clients are remembered, as many as there is room for: {} things that others did "
        "were not counted, so that no limit held for them",
        server.clients.size(), uncounted);
}

async::Task<void> tell_statistics(std::shared_ptr<Server> server, milliseconds every) {
  for (;;) {
    if (!co_await server->loop.sleep(every)) co_return;
    log_statistics(*server);
  }
}

async::Task<Result<void>> hold_sessions(std::shared_ptr<Server> server, Channel channel) {
  std::unique_ptr<Holding> holding;
  for (;;) {
    PEN_CO_TRY_ASSIGN(const auto received, co_await channel.receive());
    if (const auto* ask = std::get_if<conversation::AskStatus>(&received.message)) {
      auto status = server->ledger.status();
      status.request = ask->request;
      (void)channel.send(status);
      continue;
    }
    bool sense = true;
    if (holding) {
      server->ledger.set_time(server->loop.now());
      sense = std::visit([&](const auto& m) { return holding->take(m); }, received.message);
      server->settle();
    } else if (const auto* begin = std::get_if<conversation::Begin>(&received.message)) {
      holding = std::make_unique<Holding>(*server, channel, *begin);
    } else {
      sense = false;
    }
    if (!sense) co_return fail(ipc::IpcError::out_of_place);
    // A holder that does not read its answers gets no more of them.
    if (channel.congested()) PEN_CO_TRY(co_await channel.flush({.deadline = server->loop.now() + seconds(30)}));
  }
}

async::Task<void> leave(std::shared_ptr<Server> server) {
  log_statistics(*server);
  co_await server->memory.finish();
  co_await server->suppression.finish();
}

struct Reading {
  sessions::Classes classes;
  std::optional<redis::ClientOptions> cluster;  // nullopt: the greylist is this host's alone
  anvil::Suppression::Options suppression = {};
};

Result<Reading> read(const config::Settings& s) {
  auto classes = sessions::Classes::parse(s.session_classes);
  if (!classes) return fail(config::ConfigError::bad_value, "session_classes: " + classes.error());
  Reading out{*std::move(classes), std::nullopt};
  PEN_TRY_ASSIGN(out.suppression, anvil::Suppression::Options::of(s));
  if (s.destdb_backend == config::DestdbBackend::redis) {
    PEN_TRY_ASSIGN(out.cluster, redis::client_options(s));
  }
  return out;
}

Result<void> look(service::Context& context) {
  PEN_TRY(read(context.settings()));
  return {};
}

Result<service::Hooks> start(service::Context& context) {
  const auto& s = context.settings();
  PEN_TRY_ASSIGN(auto reading, read(s));
  for (const auto& problem : reading.suppression.exempt.problems()) log::warning("{}", map::advice(problem));
  auto server = std::make_shared<Server>(context.loop(), std::move(reading.classes), s.anvil_rate_time_unit,
                                         s.data_directory, std::move(reading.suppression));
  if (reading.cluster) {
    auto options = *std::move(reading.cluster);
    options.seed = secure_random_u64();
    auto of_suppression = options;
    const auto say_of = [](std::string what) {
      return [what = std::move(what)](bool shared, const std::string& line) {
        if (shared)
          log::info("{}: {}", what, line);
        else
          log::warning("{}: {}", what, line);
      };
    };
    server->shared_greylist = std::make_unique<anvil::SharedGreylist>(context.loop(), server->memory, options,
                                                                      s.destdb_redis_prefix, say_of("greylist"));
    server->shared_quotas = std::make_unique<anvil::SharedQuotas>(context.loop(), server->memory, std::move(options),
                                                                  s.destdb_redis_prefix, say_of("quotas"));
    server->suppression.share(std::move(of_suppression), s.destdb_redis_prefix, say_of("suppression list"));
    server->shared_greylist->start();
    server->shared_quotas->start();
  }
  context.loop().spawn("statistics", tell_statistics(server, s.anvil_status_update_time));
  service::serve_conversations(
      context,
      {{conversation::kName, [server](ipc::Opening o) { return hold_sessions(server, Channel(std::move(o))); }},
       {ipc::clients::kName, [server](ipc::Opening o) { return count_clients(server, ClientChannel(std::move(o))); }},
       {ipc::sender_memory::kName,
        [server](ipc::Opening o) { return remember_senders(server, MemoryChannel(std::move(o))); }},
       {ipc::suppression::kName,
        [server](ipc::Opening o) {
          std::string program = o.program;
          return anvil::answer_suppression(server->loop, list_of(server), anvil::SuppressionChannel(std::move(o)),
                                           std::move(program));
        }},
       {ipc::suppression::kOrdersName, [server](ipc::Opening o) {
          return anvil::answer_orders(server->loop, list_of(server), anvil::SuppressionOrders(std::move(o)));
        }}});
  return service::Hooks{
      // Holders take their leases of the next one; what this one knows is worth nothing.
      .drain = [server] { return leave(server); },
      .status =
          [server] {
            const auto& greylist = server->memory.greylist();
            std::vector<std::string> lines{
                fmt::format("{} clients remembered", server->clients.size()),
                fmt::format("greylist: {} triplets, {} clients", greylist.triplets(), greylist.clients()),
                fmt::format("quotas: {} users", server->memory.quotas().users())};
            if (auto listed = server->suppression.status_line(); !listed.empty()) lines.push_back(std::move(listed));
            for (const auto& c : server->ledger.status().classes)
              lines.push_back(fmt::format("class {}: {} incoming, {} outgoing, limits {} {}, refused {}{}", c.mask,
                                          c.incoming, c.outgoing, c.total, c.refuse, c.refused,
                                          c.outgoing_waits ? ", outgoing mail waits" : ""));
            return lines;
          }};
}

}  // namespace

int main(int argc, char** argv) {
  return pen::service::run(
      argc, argv,
      {.name = "anvil",
       .summary = "counts sessions and what clients do, keeps the greylist, quotas and suppression list",
       .look = look},
      start);
}
