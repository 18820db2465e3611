/// error, retry, discard: delivery programs that answer every job at once. See man/error.8.
#include <fmt/format.h>

#include <memory>
#include <set>

#include "error/answer.h"
#include "lib/base/log.h"
#include "lib/ipc/delivery.h"
#include "lib/mail/delivery_line.h"
#include "lib/service/conversations.h"

namespace {

using namespace pen;
namespace delivery = ipc::delivery;
using Channel = ipc::Channel<delivery::ToProgram, delivery::FromProgram>;

constexpr std::uint32_t kWindow = 100;
constexpr std::size_t kMaxConnections = 10000;

struct Server {
  async::Loop& loop;
  async::Cancel& draining;
  error_program::Kind kind;
  std::uint64_t answered = 0;
};

delivery::JobResult do_job(Server& server, const delivery::Job& job) {
  const WallTime now = server.loop.clock().wall_now();
  delivery::JobResult result;
  result.job = job.job;
  result.connection = job.connection;
  auto& all = result.results.emplace_back();
  all.status = error_program::answer(server.kind, job.nexthop);
  const auto delays = mail::delays_between(job.arrival, job.active, now, now);
  for (const auto& r : job.recipients) {
    all.ordinals.push_back(r.ordinal);
    log::info("{}", mail::delivery_line(job.queue_id, r.recipient, error_program::kRelay, 1, delays, all.status,
                                        mail::wording_of(job.purpose, job.soft_refusals)));
  }
  ++server.answered;
  return result;
}

async::Task<Result<void>> session(std::shared_ptr<Server> server, Channel channel) {
  std::set<std::uint64_t> open;
  for (;;) {
    // Jobs are answered as they are read: nothing is ever in hand, so a drain may end the conversation anywhere.
    PEN_CO_TRY_ASSIGN(const auto received, co_await channel.receive({.cancel = &server->draining}));
    if (const auto* o = std::get_if<delivery::OpenConnection>(&received.message)) {
      if (open.size() >= kMaxConnections || !open.insert(o->connection).second)
        co_return fail(ipc::IpcError::out_of_place, "too many connections, or one opened twice");
      delivery::ConnectionOpened opened;
      opened.connection = o->connection;
      opened.features.window = kWindow;
      PEN_CO_TRY(channel.send(opened));
    } else if (const auto* c = std::get_if<delivery::CloseConnection>(&received.message)) {
      if (open.erase(c->connection) == 0) continue;
      delivery::ConnectionClosed closed;
      closed.connection = c->connection;
      closed.opened = true;
      PEN_CO_TRY(channel.send(closed));
    } else if (const auto* j = std::get_if<delivery::Job>(&received.message)) {
      PEN_CO_TRY(channel.send(do_job(*server, *j)));
    }
    if (channel.congested()) PEN_CO_TRY(co_await channel.flush());
  }
}

/// By the name it is run under where that is retry or discard, else by the service's name.
Result<service::Hooks> start(service::Context& context, std::string_view self) {
  const auto kind = error_program::kind_of(self == "retry" || self == "discard" ? self : context.service());
  auto server = std::make_shared<Server>(Server{context.loop(), context.draining(), kind, 0});
  service::serve_conversations(
      context, {{delivery::kName, [server](ipc::Opening o) { return session(server, Channel(std::move(o))); }}});
  return service::Hooks{
      .status = [server] { return std::vector<std::string>{fmt::format("{} jobs answered", server->answered)}; }};
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view self(argc > 0 ? argv[0] : "error");
  self = self.substr(self.rfind('/') + 1);
  return pen::service::run(
      argc, argv, {.name = std::string(self), .summary = "answers every delivery at once: error, retry, discard"},
      [self](pen::service::Context& context) { return start(context, self); });
}
