/// anvil: counts SMTP sessions per session class. See man/anvil.8.
#include <fmt/format.h>

#include <memory>
#include <unordered_map>

#include "anvil/ledger.h"
#include "lib/base/log.h"
#include "lib/ipc/channel.h"
#include "lib/ipc/topology.h"
#include "lib/service/service.h"

namespace {

using namespace pen;
namespace conversation = ipc::sessions;
using Channel = ipc::Channel<conversation::ToAnvil, conversation::FromAnvil>;
using anvil::Ledger;

struct Server {
  Server(async::Loop& loop_in, sessions::Classes classes)
      : loop(loop_in), ledger(std::move(classes)) {}

  async::Loop& loop;
  Ledger ledger;
  std::unordered_map<Ledger::Holder, Channel*> channels;  // each lives in its session's frame
  async::Loop::TimerHandle timer;

  /// Sends what the ledger decided. Messages are small and their number is bounded by that of the sessions.
  void settle() {
    for (const auto& send : ledger.take_actions()) {
      const auto at = channels.find(send.to);
      if (at == channels.end() || !at->second->is_open()) continue;  // its end is being noticed
      std::visit([&](const auto& m) { static_cast<void>(at->second->send(m)); }, send.message);
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
  Holding(Server& s, Channel& channel, const conversation::Begin& begin)
      : server(s), holder(begun(s, begin)) {
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

async::Task<void> session(std::shared_ptr<Server> server, ipc::AllowedPeers peers,
                          async::Listener::Accepted accepted) {
  auto opening = co_await ipc::greet(std::move(accepted.stream), peers,
                                     {.deadline = server->loop.now() + seconds(30)});
  if (!opening) {
    log::warning("connection refused: {}", opening.error().message());
    co_return;
  }
  if (opening->conversation != conversation::kName) {
    log::warning("unknown conversation {}", opening->conversation);
    co_return;
  }
  Channel channel(*std::move(opening));
  std::unique_ptr<Holding> holding;
  for (;;) {
    auto received = co_await channel.receive();
    if (!received) {
      if (!received.error().is(async::WaitError::closed))
        log::warning("a holder of sessions, pid {}: {}", channel.peer().pid,
                     received.error().message());
      co_return;
    }
    if (const auto* ask = std::get_if<conversation::AskStatus>(&received->message)) {
      auto status = server->ledger.status();
      status.request = ask->request;
      static_cast<void>(channel.send(status));
      continue;
    }
    bool sense = true;
    if (holding) {
      server->ledger.set_time(server->loop.now());
      sense = std::visit([&](const auto& m) { return holding->take(m); }, received->message);
      server->settle();
    } else if (const auto* begin = std::get_if<conversation::Begin>(&received->message)) {
      holding = std::make_unique<Holding>(*server, channel, *begin);
    } else {
      sense = false;
    }
    if (!sense) {
      log::error("a holder of sessions, pid {}, does not keep to the conversation",
                 channel.peer().pid);
      co_return;
    }
    // A holder that does not read its answers gets no more of them.
    if (channel.congested() &&
        !co_await channel.flush({.deadline = server->loop.now() + seconds(30)}))
      co_return;
  }
}

async::Task<void> leave_at_once() { co_return; }

Result<service::Hooks> start(service::Context& context) {
  auto classes = sessions::Classes::parse(context.settings().session_classes);
  if (!classes) return fail(config::ConfigError::bad_value, "session_classes: " + classes.error());
  auto server = std::make_shared<Server>(context.loop(), *std::move(classes));
  const ipc::AllowedPeers peers{.mail_owner = context.owner().uid};
  context.serve([server, peers](async::Listener::Accepted accepted) {
    return session(server, peers, std::move(accepted));
  });
  return service::Hooks{
      // Holders take their leases of the next one; what this one knows is worth nothing.
      .drain = [] { return leave_at_once(); },
      .status =
          [server] {
            std::vector<std::string> lines;
            for (const auto& c : server->ledger.status().classes)
              lines.push_back(
                  fmt::format("class {}: {} incoming, {} outgoing, limits {} {}, refused {}{}",
                              c.mask, c.incoming, c.outgoing, c.total, c.refuse, c.refused,
                              c.outgoing_waits ? ", outgoing mail waits" : ""));
            return lines;
          }};
}

}  // namespace

int main(int argc, char** argv) {
  return pen::service::run(
      argc, argv, {.name = "anvil", .summary = "counts sessions per class of hosts"}, start);
}
