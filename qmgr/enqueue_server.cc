#include "qmgr/enqueue_server.h"

#include "lib/base/log.h"
#include "lib/mail/queue_id.h"

namespace pen::qmgr {

using ipc::enqueue::Enqueued;
using ipc::enqueue::Outcome;
using ipc::enqueue::QueueState;

EnqueueServer::EnqueueServer(async::Loop& loop, Manager& manager, spool::Spool* spool, std::size_t inline_limit)
    : loop_(loop), manager_(manager), earlier_(loop, manager), spool_(spool), inline_limit_(inline_limit) {}

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
  if (m.lease != 0 && s->leases.erase(m.lease) == 0) {
    log::warning("{}: message refused: its body is in a spool file that the receiver does not hold",
                 m.envelope.queue_id);
    (void)s->channel.send(Enqueued{m.request, Outcome::refused, "no such lease"});
    return;
  }
  if (earlier_.is_new(m.envelope.queue_id))
    take_in(s, m, EarlierMail::Found::none);
  else
    take_later(s, m);
}

void EnqueueServer::take_later(const std::shared_ptr<Session>& s, const ipc::enqueue::Enqueue& m) {
  struct Kept {
    ipc::enqueue::Enqueue message;
    std::string body, session;
  };
  const std::size_t size = m.inline_body.size() + 1024;
  s->unanswered += size;
  ++unanswered_;
  ++looked_for_;
  auto kept = std::make_shared<Kept>(Kept{m, std::string(m.inline_body), std::string(m.session)});
  kept->message.inline_body = kept->body;
  kept->message.session = kept->session;
  earlier_.look(m.envelope, [this, s, size, kept](EarlierMail::Found found) {
    s->unanswered -= size;
    --unanswered_;
    --looked_for_;
    if (s->unanswered <= kMaxUnanswered / 2) s->drained.set();
    if (!closed_) return take_in(s, kept->message, found);
    if (kept->message.lease != 0) spool_->give_back(kept->message.lease);
  });
}

void EnqueueServer::refuse(const std::shared_ptr<Session>& s, const ipc::enqueue::Enqueue& m, Outcome outcome,
                           const std::string& why) {
  if (m.lease != 0) spool_->give_back(m.lease);
  log::warning("{}: message refused: {}", m.envelope.queue_id, why);
  if (s->alive) (void)s->channel.send(Enqueued{m.request, outcome, why});
}

void EnqueueServer::take_in(const std::shared_ptr<Session>& s, ipc::enqueue::Enqueue& m, EarlierMail::Found earlier) {
  if (earlier == EarlierMail::Found::another)
    return refuse(s, m, Outcome::refused, "the queue has another message of this id");
  if (earlier == EarlierMail::Found::unknown)
    return refuse(s, m, Outcome::try_later, "the queue cannot be searched for its id");
  spool::BodyRef ref = 0;
  if (m.lease != 0) {
    auto taken = spool_->take(m.lease, m.envelope.queue_id, m.envelope.body.size);
    if (!taken) return refuse(s, m, Outcome::refused, taken.error().message());
    ref = *taken;
  }
  const std::size_t size = m.inline_body.size() + 1024;
  s->unanswered += size;
  ++unanswered_;
  std::string queue_id = m.envelope.queue_id;
  auto answer = [this, s, size, request = m.request, id = std::move(queue_id)](Outcome outcome, std::string text) {
    s->unanswered -= size;
    --unanswered_;
    if (s->unanswered <= kMaxUnanswered / 2) s->drained.set();
    if (outcome == Outcome::refused) log::warning("{}: message refused: {}", id, text);
    if (s->alive) (void)s->channel.send(Enqueued{request, outcome, std::move(text)});
  };
  const NewMail::Origin origin{.carrier = s->carrier, .session = m.session};
  auto event = manager_.event();
  if (earlier == EarlierMail::Found::same)
    return event->new_mail.take_again(m.envelope, m.permit, m.inline_body, ref, std::move(answer), origin);
  event->new_mail.enqueue(std::move(m.envelope), m.permit, m.inline_body, ref, ref == 0 ? 0 : spool::kContentOffset,
                          std::move(answer), origin);
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
