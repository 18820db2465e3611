#include "lib/mailbox/nursery.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "lib/base/log.h"
#include "lib/mailbox/descriptors.h"

namespace pen::mailbox {
namespace {

constexpr int kSocket = 3;

void plain_signals() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  for (int s = 1; s < NSIG; ++s) (void)::sigaction(s, &action, nullptr);  // may fail for SIGKILL and the like
  action.sa_handler = SIG_IGN;
  (void)::sigaction(SIGPIPE, &action, nullptr);
  (void)::sigaction(SIGXFSZ, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// Moves `socket` to kSocket and closes all other descriptors except the standard ones.
bool only(int socket) {
  if (socket != kSocket && ::dup2(socket, kSocket) < 0) return false;
  return ::close_range(kSocket + 1, ~0U, 0) == 0;
}

[[noreturn]] void nurse(int socket) {
  plain_signals();
  if (!only(socket)) ::_exit(71);
  struct sigaction action{};
  action.sa_handler = SIG_IGN;
  (void)::sigaction(SIGCHLD, &action, nullptr);  // nobody asks for the exit status of workers
  for (;;) {
    auto request = receive_descriptor(kSocket);
    if (!request) ::_exit(71);
    if (!request->descriptor) ::_exit(0);
    const pid_t pid = ::_Fork();
    if (pid != 0) continue;  // parent, or a failed fork: the control socket closes at the end of this round
    action.sa_handler = SIG_DFL;
    (void)::sigaction(SIGCHLD, &action, nullptr);
    const int control = request->descriptor.release();
    if (!only(control)) ::_exit(71);
    run_worker(kSocket);
  }
}

}  // namespace

Nursery& Nursery::instance() {
  static Nursery nursery;
  return nursery;
}

Result<void> Nursery::started() {
  if (socket_) return {};
  PEN_TRY_ASSIGN(auto pair, socket_pair(SOCK_SEQPACKET));
  log::flush();  // otherwise the child would have a copy of the waiting lines
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("fork");
  if (pid == 0) nurse(pair.theirs.get());
  pid_ = pid;
  socket_ = std::move(pair.ours);
  return {};
}

/// Makes a process without a role; returns its control socket.
Result<Fd> Nursery::make() {
  PEN_TRY_ASSIGN(auto control, socket_pair(SOCK_SEQPACKET));
  PEN_TRY(started());
  auto sent = send_descriptor(socket_.get(), "worker", control.theirs.get(), Full::wait);
  if (!sent && sent.error().is_errno(EPIPE)) {  // the nursery has died
    socket_.reset();
    (void)::waitpid(pid_, nullptr, 0);
    PEN_TRY(started());
    sent = send_descriptor(socket_.get(), "worker", control.theirs.get(), Full::wait);
  }
  if (!sent) return std::unexpected(std::move(sent).error());
  return std::move(control.ours);
}

Result<Fd> Nursery::hire(const Role& role) {
  const std::string bytes = encode(role);
  std::lock_guard lock(mutex_);
  Fd worker;
  while (!worker && !ahead_.empty()) {
    worker = std::move(ahead_.front());
    ahead_.pop_front();
    if (!send_message(worker.get(), bytes)) worker.reset();  // it has waited too long and ended
  }
  if (!worker) {
    PEN_TRY_ASSIGN(worker, make());
    PEN_TRY(send_message(worker.get(), bytes));
  }
  while (ahead_.size() < kAhead) {
    auto next = make();
    if (!next) break;  // tried again, and the error reported, when one is needed
    ahead_.push_back(*std::move(next));
  }
  return worker;
}

}  // namespace pen::mailbox
