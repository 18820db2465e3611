#include "lib/send/mailbox/connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>

#include "lib/send/mailbox/become.h"
#include "lib/send/mailbox/descriptors.h"
#include "lib/send/mailbox/helper.h"
#include "lib/send/mailbox/worker.h"

namespace pen::mailbox {
namespace {

using Kind = CommandEnd::Kind;
using Time = std::chrono::steady_clock::time_point;

constexpr int kRefused = 77;

int option_of(int socket, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

/// Why a command may not have this descriptor as its connection; nullopt: it may.
std::optional<std::string> objection_to(const Fd& connection) {
  if (!connection) return "no connection came with the request";
  const int domain = option_of(connection.get(), SO_DOMAIN);
  const bool stream = option_of(connection.get(), SO_TYPE) == SOCK_STREAM &&
                      (domain == AF_UNIX || domain == AF_INET || domain == AF_INET6);
  if (!stream || option_of(connection.get(), SO_ACCEPTCONN) != 0) return "the descriptor is no connection";
  return std::nullopt;
}

Result<void> take_account(const Policy& policy) {
  PEN_TRY_ASSIGN(const auto who, account_of(policy, {.kind = Request::Kind::connection, .name = {}}));
  if (who) PEN_TRY(become(*who));
  // The command has the same account: it must not look into this process.
  ::prctl(PR_SET_DUMPABLE, 0);
  ::umask(077);
  if (::chdir("/") != 0) return fail_errno("cannot change to /");
  return {};
}

/// The words of exec, made before the fork.
struct Prepared {
  explicit Prepared(const Policy& policy) {
    for (const auto& word : policy.argv) argv.push_back(const_cast<char*>(word.c_str()));
    for (const auto& entry : policy.environment) envp.push_back(const_cast<char*>(entry.c_str()));
    argv.push_back(nullptr);
    envp.push_back(nullptr);
  }
  std::vector<char*> argv, envp;
};

void default_signals() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  for (int s = 1; s < NSIG; ++s) (void)::sigaction(s, &action, nullptr);  // may fail for SIGKILL and the like
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// In the command's process, between fork and exec. What fails is reported through the pipe as an errno.
[[noreturn]] void become_command(const Prepared& prepared, pid_t parent, int connection, int told) {
  ::setpgid(0, 0);
  // The program that watches it has ended, and no other would end it.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(EX_OSERR);
  default_signals();
  const auto give_up = [&told] {
    const int why = errno;
    (void)!::write(told, &why, sizeof why);
    ::_exit(EX_OSERR);
  };
  told = ::fcntl(told, F_DUPFD_CLOEXEC, 10);
  if (told < 0) ::_exit(EX_OSERR);
  for (const int fd : {0, 1, 2})
    if (::dup2(connection, fd) < 0) give_up();
  if (::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) give_up();
  ::environ = const_cast<char**>(prepared.envp.data());
  ::execvp(prepared.argv[0], prepared.argv.data());
  give_up();
  ::_exit(EX_OSERR);
}

class Run {
 public:
  Run(int control, const Policy& policy) : control_(control), policy_(policy) {}

  /// nullopt: no process waits for the answer.
  std::optional<CommandEnd> operator()(Fd connection) {
    if (auto started = start(std::move(connection)); !started)
      return CommandEnd{.kind = Kind::not_started, .code = errno_of(started.error())};
    const Time limit = std::chrono::steady_clock::now() + policy_.limit;
    switch (await(limit)) {
      case Event::gone:
        kill_group();
        return std::nullopt;
      case Event::time:
        kill_group();
        // A killed process ends at once, but for one that is stuck in the kernel.
        (void)await(std::chrono::steady_clock::now() + kGrace);
        return CommandEnd{.kind = Kind::time_limit, .pid = pid_};
      case Event::ended:
        return how_it_ended();
    }
    return std::nullopt;
  }

 private:
  enum class Event : std::uint8_t { ended, time, gone };

  static int errno_of(const Error& error) {
    const int why = error.sys_errno();
    return why > 0 && why <= kLargestErrno ? why : EIO;
  }

  Result<void> start(Fd connection) {
    PEN_TRY(take_account(policy_));
    const int flags = ::fcntl(connection.get(), F_GETFL);
    if (flags < 0 || ::fcntl(connection.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) return fail_errno("fcntl");
    int pipe[2];
    if (::pipe2(pipe, O_CLOEXEC | O_NONBLOCK) != 0) return fail_errno("pipe");
    told_ = Fd(pipe[0]);
    const Fd tells(pipe[1]);
    const Prepared prepared(policy_);
    const pid_t self = ::getpid();
    const pid_t pid = ::_Fork();
    if (pid < 0) return fail_errno("fork");
    if (pid == 0) become_command(prepared, self, connection.get(), tells.get());
    pid_ = pid;
    (void)::setpgid(pid_, pid_);  // in both processes, because either may run first
    process_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    if (process_) return {};
    const Error why = Error::from_errno(errno, "pidfd_open");
    kill_group();
    return fail(why);
  }

  Event await(Time until) const {
    for (;;) {
      const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now()).count();
      if (left <= 0) return Event::time;
      pollfd fds[2] = {{process_.get(), POLLIN, 0}, {control_, 0, 0}};
      const int ready = ::poll(fds, 2, static_cast<int>(std::min<long long>(left, 60'000)));
      if (ready < 0 && errno != EINTR) return Event::gone;
      if (ready <= 0) continue;
      return fds[0].revents != 0 ? Event::ended : Event::gone;
    }
  }

  CommandEnd how_it_ended() const {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    int why = 0;
    if (::read(told_.get(), &why, sizeof why) == sizeof why)
      return {.kind = Kind::not_executed, .code = why, .pid = pid_};
    if (WIFSIGNALED(status)) return {.kind = Kind::signalled, .code = WTERMSIG(status), .pid = pid_};
    return {.kind = Kind::exited, .code = WEXITSTATUS(status), .pid = pid_};
  }

  void kill_group() const {
    (void)::kill(-pid_, SIGKILL);
    (void)::kill(pid_, SIGKILL);
  }

  const int control_;
  const Policy& policy_;
  Fd told_, process_;
  pid_t pid_ = -1;
};

}  // namespace

void serve_connection(int control, Fd connection, const Policy& policy) {
  if (const auto no = objection_to(connection)) {
    tell_refused("a command", *no);
    ::_exit(kRefused);
  }
  if (const auto end = Run(control, policy)(std::move(connection)))
    (void)send_message(control, encode_command_end(*end));  // the asker may have ended meanwhile
  ::_exit(0);
}

}  // namespace pen::mailbox
