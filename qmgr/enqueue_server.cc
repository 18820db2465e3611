#include "qmgr/enqueue_server.h"

#include "lib/base/log.h"

namespace pen::qmgr {

using ipc::enqueue::Enqueued;
using ipc::enqueue::Outcome;
using ipc::enqueue::QueueState;

EnqueueServer::EnqueueServer(async::Loop& loop, Manager& manager, std::size_t inline_limit,
                             std::function<void()> poke)
    : loop_(loop), manager_(manager), inline_limit_(inline_limit), poke_(std::move(poke)) {}

void EnqueueServer::queue_state(bool accepting) {
  for (const auto& s : sessions_)
    static_cast<void>(s->channel.send(QueueState{accepting, inline_limit_}));
}

async::Task<void> EnqueueServer::serve(ipc::Opening opening) {
  auto session = std::make_shared<Session>(loop_, std::move(opening));
  sessions_.insert(session);
  static_cast<void>(session->channel.send(QueueState{manager_.accepting(), inline_limit_}));
  for (;;) {
    auto received = co_await session->channel.receive();
    if (!received) {
      if (!received.error().is(async::WaitError::closed))
        log::warning("enqueue: {}", received.error().message());
      break;
    }
    std::visit([&](auto& m) { take(session, m); }, received->message);
    poke_();
    if (session->unanswered > kMaxUnanswered) {
      session->drained.reset();
      static_cast<void>(co_await session->drained.wait());
    }
    if (session->channel.congested() &&
        !co_await session->channel.flush({.deadline = loop_.now() + seconds(60)})) {
      break;
    }
  }
  session->alive = false;
  sessions_.erase(session);
}

void EnqueueServer::take(const std::shared_ptr<Session>& s, ipc::enqueue::Enqueue& m) {
  if (draining_) {
    static_cast<void>(
        s->channel.send(Enqueued{m.request, Outcome::try_later, "the queue manager is stopping"}));
    return;
  }
  const std::size_t size = m.inline_body.size() + 1024;
  s->unanswered += size;
  manager_.enqueue(
      m.envelope, m.inline_body, 0, 0,
      [s, size, request = m.request, id = m.envelope.queue_id](Outcome outcome, std::string text) {
        s->unanswered -= size;
        if (s->unanswered <= kMaxUnanswered / 2) s->drained.set();
        if (outcome == Outcome::refused) log::warning("{}: message refused: {}", id, text);
        if (s->alive)
          static_cast<void>(s->channel.send(Enqueued{request, outcome, std::move(text)}));
      });
}

void EnqueueServer::take(const std::shared_ptr<Session>& s, ipc::enqueue::LeaseSpool& m) {
  static_cast<void>(s->channel.send(ipc::enqueue::SpoolLeased{m.request, Outcome::no_space, 0, 0}));
}

void EnqueueServer::take(const std::shared_ptr<Session>&, ipc::enqueue::ReturnLease&) {}

}  // namespace pen::qmgr
