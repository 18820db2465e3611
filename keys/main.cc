/// keys: holds the private keys of TLS and DKIM, and signs with them. See man/keys.8.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "keys/sources.h"
#include "lib/base/async/handler_pool.h"
#include "lib/base/async/sync.h"
#include "lib/base/log.h"
#include "lib/config/process_count.h"
#include "lib/net/tls/context.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/service/conversations.h"

namespace {

using namespace pen;
using keys::Use;
using Channel = ipc::Channel<ipc::keys::ToKeys, ipc::keys::FromKeys>;

// Signing goes on so long before others have their turn, and answers leave.
constexpr milliseconds kTurn{1};
// Replaced, it serves the connected clients until none has asked for kQuiet.
constexpr seconds kQuiet{1}, kLongestRest{10};
// Between two looks at files that only root can look at: what that costs is a hundredth of the time at most, up to a
// minute. Certificates are renewed long before they end.
constexpr seconds kLookPause{10}, kLongestLookPause{60};
constexpr int kLookShare = 100;
// Signatures of one client that threads have in hand; further requests wait in its socket.
constexpr std::size_t kMostInHand = 256;

struct Server {
  Server(const config::Config& config) : sources(config, system_clock()) {
    sources.load(vault);
    tell_news();
  }
  void tell_news() {
    for (const auto& line : sources.take_news()) log::warning("{}", line);
    for (const auto& file : sources.take_renewed()) log::info("the renewed certificate of {} is used", file);
  }
  /// Clients come back, and get the list as it is now.
  void send_all_away() {
    ++list_generation;
    hang_up.raise();
    hang_up.reset();
  }
  using Begun = std::variant<ipc::keys::FromKeys, keys::Operation>;
  Begun begin(Use use, const ipc::keys::ToKeys& request) {
    if (const auto* wanted = std::get_if<ipc::keys::Find>(&request); wanted != nullptr && use == Use::server) {
      ++found;
      auto out = sources.find(*wanted);
      tell_news();
      return out;
    }
    if (const auto* wanted = std::get_if<ipc::keys::List>(&request); wanted != nullptr && wanted->after.empty()) {
      sources.look(vault);
      tell_news();
    }
    auto out = vault.begin(use, request);
    auto* answer = std::get_if<ipc::keys::FromKeys>(&out);
    if (answer == nullptr) return out;
    if (auto* list = std::get_if<ipc::keys::Listed>(answer)) {
      ++listed;
      sources.complete(use, *list);
      return out;
    }
    if (std::get<ipc::keys::Done>(*answer).refusal == ipc::keys::Refusal::unknown_key && use == Use::server)
      return sources.by_name().begin(use, request);
    return out;
  }
  ipc::keys::FromKeys counted(Use use, ipc::keys::FromKeys answer) {
    if (const auto* done = std::get_if<ipc::keys::Done>(&answer))
      ++(done->refusal == ipc::keys::Refusal::none ? signed_by[static_cast<std::size_t>(use)] : refused);
    return answer;
  }
  /// With one processor, or one thread wanted, the loop signs itself.
  void make_threads(async::Loop& on, int wanted) {
    loop = &on;
    const unsigned threads = wanted == 0 ? config::processors() : static_cast<unsigned>(wanted);
    if (threads > 1) pool.emplace(on, threads);
  }

  keys::Vault vault;
  keys::Sources sources;
  std::array<std::uint64_t, keys::kUses> signed_by{};
  std::uint64_t refused = 0, listed = 0, found = 0;
  async::Loop* loop = nullptr;
  std::optional<async::HandlerPool> pool;  // for what is slow
  SteadyTime last_question{};
  async::Cancel hang_up;
  std::uint64_t list_generation = 0;
  bool stopping = false;
};

struct Client {
  Client(async::Loop& loop, Channel opened) : channel(std::move(opened)), room(loop, kMostInHand), in_hand(loop) {}
  void send(const ipc::keys::FromKeys& answer) {
    std::visit([&](const auto& one) { (void)channel.send(one); }, answer);
  }
  Channel channel;
  async::Semaphore room;
  async::Gate in_hand;  // they end with the client
};

/// In a thread, while the loop goes on reading.
async::Task<void> sign(Server* server, Client* client, Use use, keys::Operation operation) {
  auto done = co_await server->pool->run([operation = std::move(operation)] { return operation.run(); });
  client->send(server->counted(use, std::move(done)));
  client->room.release();
}

async::Task<Result<void>> serve(Server& server, Client& client, Use use) {
  const Clock& clock = server.loop->clock();
  SteadyTime began = clock.now();
  const std::uint64_t mine = server.list_generation;
  while (mine == server.list_generation) {
    PEN_CO_TRY_ASSIGN(auto received, co_await client.channel.receive({.cancel = &server.hang_up}));
    server.last_question = server.loop->now();
    auto begun = server.begin(use, received.message);
    auto* operation = std::get_if<keys::Operation>(&begun);
    if (operation != nullptr && operation->slow() && server.pool) {
      PEN_CO_TRY(co_await client.room.acquire());
      client.in_hand.spawn("signature", sign(&server, &client, use, std::move(*operation)));
    } else {
      client.send(server.counted(use, operation != nullptr ? operation->run() : std::get<0>(std::move(begun))));
    }
    if (client.channel.congested())
      PEN_CO_TRY(co_await client.channel.flush({.deadline = server.loop->now() + seconds(30)}));
    if (clock.now() - began < kTurn) continue;
    co_await server.loop->next_turn();
    began = clock.now();
  }
  co_return Result<void>();
}

/// What is not answered when the process ends is asked again of the next one.
async::Task<Result<void>> serve_client(std::shared_ptr<Server> server, Use use, Channel channel) {
  Client client(*server->loop, std::move(channel));
  auto ended = co_await serve(*server, client, use);
  (void)co_await client.in_hand.drained({.deadline = server->loop->now() + seconds(5)});
  auto flushed = co_await client.channel.flush({.deadline = server->loop->now() + seconds(5)});
  co_return ended ? std::move(flushed) : std::move(ended);
}

std::vector<std::string> status(const Server& s) {
  return {fmt::format("keys: {} of TLS servers, {} by name, {} of TLS clients, {} of DKIM; {} cannot be had",
                      s.vault.names(Use::server), s.sources.by_name().names(Use::server), s.vault.names(Use::client),
                      s.vault.names(Use::dkim), s.sources.errors()),
          fmt::format("signed: {} for TLS servers, {} for TLS clients, {} for DKIM; refused {}; lists {}, names {}",
                      s.signed_by[0], s.signed_by[1], s.signed_by[2], s.refused, s.listed, s.found)};
}

/// At a reload new clients go to the next process, which has the new keys. It may lack an old one: a handshake that has
/// shown the certificate must have its signature from here, so no client is sent away before a second without a
/// question. At a stop the others finish what they have in hand, and are served until they end.
async::Task<void> drain(std::shared_ptr<Server> server, service::Context* context) {
  const SteadyTime last = server->loop->now() + kLongestRest;
  SteadyTime quiet = server->loop->now() + kQuiet;
  while (!server->stopping && server->loop->now() < std::min(quiet, last)) {
    (void)co_await server->loop->sleep(std::min(quiet, last) - server->loop->now());
    quiet = server->last_question + kQuiet;
  }
  if (!server->stopping) server->hang_up.raise();
  (void)co_await context->sessions().drained();
}

/// Nobody but root sees these files change: no program that uses them can say that they have.
async::Task<void> look_for_renewals(std::shared_ptr<Server> server, service::Context* context) {
  const Clock& clock = server->loop->clock();
  std::chrono::nanoseconds pause = kLookPause;
  while ((co_await server->loop->sleep(pause, {.cancel = &context->draining()})).has_value()) {
    const SteadyTime began = clock.now();
    const bool renewed = server->sources.look_closely(server->vault);
    server->tell_news();
    if (renewed) server->send_all_away();
    pause = std::clamp<std::chrono::nanoseconds>(kLookShare * (clock.now() - began), kLookPause, kLongestLookPause);
  }
}

/// Keys that cannot be used are logged, and end nothing.
Result<void> look(service::Context& context) {
  const Server server(context.config());
  return {};
}

Result<service::Hooks> start(service::Context& context, std::shared_ptr<Server> server) {
  server->make_threads(context.loop(), context.settings().tls_key_process_threads);
  server->sources.watch();
  if (server->sources.closed()) context.loop().spawn("renewals", look_for_renewals(server, &context));
  const auto for_use = [&](std::string_view name, Use use) {
    return service::Conversation{
        name, [server, use](ipc::Opening opening) { return serve_client(server, use, Channel(std::move(opening))); }};
  };
  service::serve_conversations(
      context, {for_use(ipc::keys::kServerName, Use::server), for_use(ipc::keys::kClientName, Use::client),
                for_use(ipc::keys::kDkimName, Use::dkim)});
  return service::Hooks{.drain = [server, &context] { return drain(server, &context); },
                        .stop = [server] { server->stopping = true; },
                        .status = [server] { return status(*server); }};
}

}  // namespace

int main(int argc, char** argv) {
  std::shared_ptr<Server> server;  // made while keys that only root can read can be read
  const auto with_privileges = [&server](const pen::config::Config& config) {
    server = std::make_shared<Server>(config);
  };
  return pen::service::run(
      argc, argv,
      {.name = "keys",
       .summary = "holds private keys, and signs with them",
       .look = look,
       .with_privileges = with_privileges},
      [&server](pen::service::Context& context) { return start(context, std::exchange(server, nullptr)); });
}
