#include "qmgr/enqueue_server.h"

#include "lib/base/log.h"
#include "lib/mail/queue_id.h"

namespace pen::qmgr {

using ipc::enqueue::Enqueued;
using ipc::enqueue::Outcome;
using ipc::enqueue::QueueState;

EnqueueServer::EnqueueServer(async::Loop& loop, Manager& manager, spool::Spool* spool, std::size_t inline_limit)
    : loop_(loop), manager_(manager), spool_(spool), inline_limit_(inline_limit) {}

std::size_t EnqueueServer::leases() const {
  std::size_t n = 0;
  for (const auto& s : sessions_) n += s->leases.size();
  return n;
}

std::size_t EnqueueServer::queued() const {
  std::size_t n = 0;
  for (const auto& s : sessions_) n += s->alive ? s->channel.queued() : 0;
  return n;
}

void EnqueueServer::queue_state(bool accepting) {
  for (const auto& s : sessions_) (void)s->channel.send(QueueState{accepting, inline_limit_});
}

async::Task<void> EnqueueServer::serve(ipc::Opening opening) {
  auto session = std::make_shared<Session>(loop_, std::move(opening));
  sessions_.insert(session);
  (void)session->channel.send(QueueState{manager_.accepting(), inline_limit_});
  for (;;) {
    auto received = co_await session->channel.receive();
    if (!received) {
      if (!received.error().is(async::WaitError::closed)) log::warning("enqueue: {}", received.error().message());
      break;
    }
    if (closed_) continue;  // the end of the process is the answer; earlier ones must still leave
    std::visit([&](auto& m) { take(session, m); }, received->message);
    if (session->unanswered > kMaxUnanswered) {
      session->drained.reset();
      (void)co_await session->drained.wait();
    }
    if (session->channel.congested() && !co_await session->channel.flush({.deadline = loop_.now() + seconds(60)})) {
      break;
    }
  }
  for (const std::uint64_t lease : session->leases) spool_->give_back(lease);
  session->alive = false;
  sessions_.erase(session);
}

void EnqueueServer::take(const std::shared_ptr<Session>& s, ipc::enqueue::Enqueue& m) {
  if (!mail::is_queue_id(m.envelope.queue_id)) {
    log::warning("message refused: not a queue id: {}", m.envelope.queue_id);
    (void)s->channel.send(Enqueued{m.request, Outcome::refused, "not a queue id"});
    return;
  }
  spool::BodyRef ref = 0;
  if (m.lease != 0) {
    if (s->leases.erase(m.lease) == 0) {
      log::warning("{}: message refused: its body is in a spool file that the receiver does not hold",
                   m.envelope.queue_id);
      (void)s->channel.send(Enqueued{m.request, Outcome::refused, "no such lease"});
      return;
    }
    auto taken = spool_->take(m.lease, m.envelope.queue_id, m.envelope.body.size);
    if (!taken) {
      spool_->give_back(m.lease);
      log::warning("{}: message refused: {}", m.envelope.queue_id, taken.error().message());
      (void)s->channel.send(Enqueued{m.request, Outcome::refused, taken.error().message()});
      return;
    }
    ref = *taken;
  }
  const std::size_t size = m.inline_body.size() + 1024;
  s->unanswered += size;
  ++unanswered_;
  std::string queue_id = m.envelope.queue_id;
  manager_.event()->new_mail.enqueue(
      std::move(m.envelope), m.permit, m.inline_body, ref, ref == 0 ? 0 : spool::kContentOffset,
      [this, s, size, request = m.request, id = std::move(queue_id)](Outcome outcome, std::string text) {
        s->unanswered -= size;
        --unanswered_;
        if (s->unanswered <= kMaxUnanswered / 2) s->drained.set();
        if (outcome == Outcome::refused) log::warning("{}: message refused: {}", id, text);
        if (s->alive) (void)s->channel.send(Enqueued{request, outcome, std::move(text)});
      },
      {.carrier = s->carrier, .session = m.session});
}

void EnqueueServer::take(const std::shared_ptr<Session>& s, ipc::enqueue::LeaseSpool& m) {
  ipc::enqueue::SpoolLeased answer{m.request, Outcome::ok, 0, 0};
  if (draining_ || !manager_.accepting() || spool_ == nullptr) {
    answer.outcome = draining_ ? Outcome::try_later : Outcome::no_space;
    (void)s->channel.send(answer);
    return;
  }
  auto lease = spool_->lease(m.expected_size);
  if (!lease) {
    const Error& why = lease.error();
    const bool space = why.is(spool::SpoolError::no_space) || why.is_errno(ENOSPC);
    // A failing disk does not mend while a client waits in the middle of its content.
    const bool failing = why.is_errno(EIO) || why.is_errno(EROFS);
    log::warning("spool: {}", why.message());
    answer.outcome = space ? Outcome::no_space : failing ? Outcome::refused : Outcome::try_later;
    (void)s->channel.send(answer);
    return;
  }
  s->leases.insert(lease->lease);
  answer.lease = lease->lease;
  answer.content_offset = lease->content_offset;
  Fd fds[] = {std::move(lease->fd)};
  (void)s->channel.send(answer, fds);
}

void EnqueueServer::take(const std::shared_ptr<Session>& s, ipc::enqueue::ReturnLease& m) {
  if (s->leases.erase(m.lease) != 0) spool_->give_back(m.lease);
}

}  // namespace pen::qmgr
