#include "spawn/child.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "lib/async/readiness.h"
#include "lib/base/fd.h"

namespace pen::spawner {
namespace {

/// Pointers for exec, made before the fork.
struct Prepared {
  explicit Prepared(const Command& c) : command(c) {
    for (const auto& word : c.argv) argv.push_back(const_cast<char*>(word.c_str()));
    for (const auto& entry : c.environment) envp.push_back(const_cast<char*>(entry.c_str()));
    argv.push_back(nullptr);
    envp.push_back(nullptr);
  }
  const Command& command;
  std::vector<char*> argv, envp;
};

bool become(const mailbox::Identity& who) {
  if (who.uid == 0) {
    errno = EPERM;
    return false;
  }
  if (::setgroups(who.groups.size(), who.groups.data()) != 0 || ::setresgid(who.gid, who.gid, who.gid) != 0 ||
      ::setresuid(who.uid, who.uid, who.uid) != 0)
    return false;
  if (::setuid(0) != 0) return true;
  errno = EPERM;
  return false;
}

void default_signals() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  for (int s = 1; s < NSIG; ++s) (void)::sigaction(s, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// In the command's process, between fork and exec. What fails is told through the pipe as an errno.
[[noreturn]] void become_command(const Prepared& prepared, pid_t parent, int socket, int told) {
  ::setpgid(0, 0);
  default_signals();
  ::umask(077);
  const auto give_up = [&told] {
    const int why = errno;
    (void)!::write(told, &why, sizeof why);
    ::_exit(EX_OSERR);
  };
  told = ::fcntl(told, F_DUPFD_CLOEXEC, 10);
  if (told < 0) ::_exit(EX_OSERR);
  for (const int fd : {0, 1, 2})
    if (::dup2(socket, fd) < 0) give_up();
  ::fcntl(0, F_SETFL, ::fcntl(0, F_GETFL) & ~O_NONBLOCK);
  if (::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) give_up();
  if (::chdir("/") != 0) give_up();
  if (prepared.command.become && !become(*prepared.command.become)) give_up();
  // Cleared when the account changes, so set after that.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(EX_OSERR);
  ::environ = const_cast<char**>(prepared.envp.data());
  ::execvp(prepared.argv[0], prepared.argv.data());
  give_up();
  ::_exit(EX_OSERR);
}

Ending not_started(std::string what, int why) {
  return {.kind = Ending::Kind::not_started, .why = Error::from_errno(why, std::move(what)).message()};
}

/// What waitpid() tells of the child; nullopt: it has not ended.
std::optional<Ending> reap(pid_t pid, int flags) {
  int status = 0;
  pid_t ended;
  while ((ended = ::waitpid(pid, &status, flags)) < 0 && errno == EINTR) {
  }
  if (ended != pid) return std::nullopt;
  if (WIFSIGNALED(status))
    return Ending{.kind = Ending::Kind::signalled, .code = WTERMSIG(status), .pid = pid, .why = {}};
  return Ending{.kind = Ending::Kind::exited, .code = WEXITSTATUS(status), .pid = pid, .why = {}};
}

void kill_group(pid_t pid) {
  (void)::kill(-pid, SIGKILL);
  (void)::kill(pid, SIGKILL);
}

}  // namespace

async::Task<Ending> run_command(async::Loop& loop, const Command& command, async::Stream socket,
                                std::chrono::seconds limit) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC | O_NONBLOCK) != 0) co_return not_started("pipe", errno);
  const Fd told(pipe[0]);
  Fd tells(pipe[1]);
  const pid_t self = ::getpid();
  pid_t pid = -1;
  {
    const Prepared prepared(command);
    // Not fork(): the handlers that libuv runs in the child close descriptors by number.
    pid = ::_Fork();
    if (pid == 0) become_command(prepared, self, socket.fd(), tells.get());
  }
  if (pid < 0) co_return not_started("fork", errno);
  (void)::setpgid(pid, pid);  // in both processes, because either may run first
  tells.reset();
  socket.close();  // the client sees the command's end
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) {
    const int why = errno;
    kill_group(pid);
    (void)reap(pid, 0);
    co_return not_started("pidfd_open", why);
  }
  async::Readiness ended(loop, process.get());
  const auto in_time = co_await ended.readable({.deadline = loop.now() + limit});
  if (!in_time) kill_group(pid);
  // A killed process ends at once, but for one that is stuck in the kernel: that one must not stop the loop.
  if (!in_time) (void)co_await ended.readable({.deadline = loop.now() + seconds(10)});
  const auto how = reap(pid, WNOHANG);
  if (!in_time) co_return Ending{.kind = Ending::Kind::time_limit, .code = 0, .pid = pid, .why = {}};
  int why = 0;
  if (::read(told.get(), &why, sizeof why) == sizeof why)
    co_return not_started("cannot execute " + command.argv.front(), why);
  co_return how.value_or(Ending{.kind = Ending::Kind::exited, .code = 0, .pid = pid, .why = {}});
}

}  // namespace pen::spawner
