/// error, retry, discard: delivery programs that answer every job at once. See man/error.8.
#include <fmt/format.h>

#include <memory>
#include <set>

#include "error/answer.h"
#include "lib/base/log.h"
#include "lib/mail/attempt.h"
#include "lib/mail/delivery_line.h"
#include "lib/send/delivery/program.h"
#include "lib/suite/events/attempt.h"
#include "lib/suite/service/service.h"

namespace {

using namespace pen;

constexpr std::uint32_t kWindow = 100;
constexpr std::size_t kMaxConnections = 10000;

struct Server {
  async::Loop& loop;
  async::Cancel& draining;
  error_program::Kind kind;
  std::uint64_t answered = 0;
};

/// Those of one conversation: a job is answered as it is read, so that nothing is ever in hand.
class Answers {
 public:
  Answers(Server& server, delivery::Conversation& qmgr) : server_(server), qmgr_(qmgr) {}

  Result<void> open(const ipc::delivery::OpenConnection& o) {
    if (open_.size() >= kMaxConnections) return delivery::out_of_place("too many connections");
    if (!open_.insert(o.connection).second) return delivery::out_of_place("connection number used twice");
    ipc::delivery::ConnectionOpened opened;
    opened.connection = o.connection;
    opened.features.window = kWindow;
    qmgr_.send(opened);
    return {};
  }
  Result<void> close(const ipc::delivery::CloseConnection& c) {
    if (open_.erase(c.connection) == 0) return {};
    ipc::delivery::ConnectionClosed closed;
    closed.connection = c.connection;
    closed.opened = true;
    qmgr_.send(closed);
    return {};
  }
  Result<void> take(const ipc::delivery::Job& job, std::span<Fd> /*fds*/) {
    const WallTime now = server_.loop.clock().wall_now();
    ipc::delivery::JobResult result;
    result.job = job.job;
    result.connection = job.connection;
    auto& all = result.results.emplace_back();
    all.status = error_program::answer(server_.kind, job.nexthop);
    const auto delays = mail::delays_between(job.arrival, job.active, now, now);
    for (const auto& r : job.recipients) {
      all.ordinals.push_back(r.ordinal);
      mail::count_attempt(metrics::Agent::error, delays, all.status.action, job.purpose);
      const auto wording = mail::wording_of(job.purpose, job.soft_refusals);
      log::info("{}",
                mail::delivery_line(job.queue_id, r.recipient, error_program::kRelay, 1, delays, all.status, wording));
      events::tell_attempt({.queue_id = job.queue_id,
                            .message = job,
                            .recipient = r.recipient,
                            .relay = error_program::kRelay,
                            .delays = delays,
                            .status = all.status,
                            .wording = wording,
                            .nexthop = job.nexthop,
                            .number = job.attempt});
    }
    ++server_.answered;
    qmgr_.send(result);
    return {};
  }
  void drain() {}
  bool idle() const { return true; }

 private:
  Server& server_;
  delivery::Conversation& qmgr_;
  std::set<std::uint64_t> open_;  // connections
};

async::Task<Result<void>> answer_jobs(std::shared_ptr<Server> server, delivery::Channel channel) {
  delivery::Conversation qmgr(std::move(channel));
  Answers answers(*server, qmgr);
  co_return co_await delivery::converse(qmgr, answers, server->draining);
}

/// By the name it is run under where that is retry or discard, else by the service's name.
Result<service::Hooks> start(service::Context& context, std::string_view self) {
  const auto kind = error_program::kind_of(self == "retry" || self == "discard" ? self : context.service());
  auto server = std::make_shared<Server>(Server{context.loop(), context.draining(), kind, 0});
  delivery::serve(context, [server](delivery::Channel channel) { return answer_jobs(server, std::move(channel)); });
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
