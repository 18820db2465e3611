#include "lib/send/mailbox/nursery.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/send/mailbox/descriptors.h"
#include "lib/send/mailbox/helper.h"

namespace pen::mailbox {
namespace {

constexpr milliseconds kStartTime{30'000};

}  // namespace

Nursery& Nursery::instance() {
  static Nursery nursery;
  return nursery;
}

Nursery::Nursery() { policy_.service = ::geteuid() == 0 ? Policy::Service::any : Policy::Service::own; }

void Nursery::use(Policy policy) {
  std::lock_guard lock(mutex_);
  PEN_CHECK(!apart_);
  if (socket_) {
    socket_.reset();
    (void)::waitpid(pid_, nullptr, 0);
  }
  ahead_.clear();
  policy_ = std::move(policy);
}

Result<void> Nursery::start(const Policy& policy, int socket) {
  Fd copy(::fcntl(socket, F_DUPFD_CLOEXEC, 0));
  if (!copy) return fail_errno("the helper's socket");
  PEN_TRY(send_message(copy.get(), encode(policy)));
  pollfd answer{copy.get(), POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&answer, 1, static_cast<int>(kStartTime.count()));
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return fail_errno("the helper's start", ETIMEDOUT);
  PEN_TRY_ASSIGN(const auto said, receive_descriptor(copy.get()));
  if (said.bytes != kHelperReady) return fail_errno("the helper has not started", ECHILD);
  socket_ = std::move(copy);
  becomes_ = ::geteuid() == 0 && policy.service != Policy::Service::own;
  policy_ = policy;
  apart_ = true;
  return {};
}

/// Without start(): a helper that is forked, and anew when it has died.
Result<void> Nursery::started() {
  if (socket_) return {};
  if (apart_) return fail_errno("the helper that is root has ended", EPIPE);
  PEN_TRY_ASSIGN(auto pair, socket_pair(SOCK_SEQPACKET));
  log::flush();  // otherwise the child would have a copy of the waiting lines
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("fork");
  if (pid == 0) {
    pair.ours.reset();
    nurse(pair.theirs.get(), {policy_, {}});
  }
  pid_ = pid;
  socket_ = std::move(pair.ours);
  return {};
}

/// Makes a process without a role; returns its control socket.
Result<Fd> Nursery::make(Full full) {
  PEN_TRY_ASSIGN(auto control, socket_pair(SOCK_SEQPACKET));
  PEN_TRY(started());
  auto sent = send_descriptor(socket_.get(), "worker", control.theirs.get(), full);
  if (!sent && sent.error().is_errno(EPIPE) && !apart_) {  // the nursery has died
    socket_.reset();
    (void)::waitpid(pid_, nullptr, 0);
    PEN_TRY(started());
    sent = send_descriptor(socket_.get(), "worker", control.theirs.get(), full);
  }
  if (!sent) return std::unexpected(std::move(sent).error());
  return std::move(control.ours);
}

Result<Request> Nursery::request_for(const Role& role) const {
  Request out;
  if (role.round) out.kind = Request::Kind::postman;
  const bool named = policy_.service == Policy::Service::users || policy_.service == Policy::Service::any;
  if (role.become && policy_.service != Policy::Service::command) {
    out.uid = role.become->uid;
    out.gid = role.become->gid;
    if (named) out.name = role.become->name;
  }
  if (out.name.size() > kMaxAccountName) return fail_errno("the account's name is too long", EINVAL);
  return out;
}

Result<Fd> Nursery::hire(const Role& role) {
  PEN_TRY_ASSIGN(const Request request, request_for(role));
  return ask(request, -1);
}

Result<Fd> Nursery::serve(int connection) { return ask({.kind = Request::Kind::connection, .name = {}}, connection); }

/// connection: -1 if there is none to send.
Result<Fd> Nursery::ask(const Request& request, int connection) {
  if (const auto no = refusal(policy_, request)) return fail_errno(*no, EPERM);
  const Full full = connection < 0 ? Full::wait : Full::fail;  // a program that serves connections has no other thread
  const auto send = [&](int worker, std::string_view bytes) {
    return connection < 0 ? send_message(worker, bytes) : send_descriptor(worker, bytes, connection, Full::wait);
  };
  const std::string bytes = encode_request(request);
  std::lock_guard lock(mutex_);
  Fd worker;
  while (!worker && !ahead_.empty()) {
    worker = std::move(ahead_.front());
    ahead_.pop_front();
    if (!send(worker.get(), bytes)) worker.reset();  // it has waited too long and ended
  }
  if (!worker) {
    PEN_TRY_ASSIGN(worker, make(full));
    PEN_TRY(send(worker.get(), bytes));
  }
  while (ahead_.size() < kAhead) {
    auto next = make(full);
    if (!next) break;  // tried again, and the error reported, when one is needed
    ahead_.push_back(*std::move(next));
  }
  return worker;
}

}  // namespace pen::mailbox
