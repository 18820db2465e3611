#include "lib/suite/service/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include <cstdlib>

#include "lib/base/forked_signals.h"

namespace pen::service {
namespace {

// Out of the way of every number that is about to be given out.
constexpr int kHigh = 1000;

// Between fork and exec: nothing but system calls.
[[noreturn]] void become(const Launch& what, int status, char* const* argv, char* const* envp) {
  const int count = static_cast<int>(what.sockets.size());
  int high = ::fcntl(status, F_DUPFD, kHigh);
  int lock = what.programs_lock < 0 ? -1 : ::fcntl(what.programs_lock, F_DUPFD, kHigh);
  int metrics = what.metrics < 0 ? -1 : ::fcntl(what.metrics, F_DUPFD, kHigh);
  for (int i = 0; i < count; ++i) {
    if (::fcntl(what.sockets[static_cast<std::size_t>(i)], F_DUPFD, kHigh + 10 + i) != kHigh + 10 + i) {
      ::_exit(EX_OSERR);
    }
  }
  if (high < 0) ::_exit(EX_OSERR);
  bool good = ::dup2(high, kStatusFd) >= 0;
  if (what.output >= 0) good = good && ::dup2(what.output, STDOUT_FILENO) >= 0;
  if (lock >= 0) good = good && ::dup2(lock, kProgramsLockFd) >= 0;
  if (metrics >= 0) good = good && ::dup2(metrics, kMetricsFd) >= 0;
  for (int i = 0; i < count; ++i) good = good && ::dup2(kHigh + 10 + i, kFirstListener + i) >= 0;
  if (!good) ::_exit(EX_OSERR);
  ::close_range(static_cast<unsigned>(kFirstListener + count), ~0U, 0);
  if (metrics < 0) ::close(kMetricsFd);
  if (lock < 0) ::close(kProgramsLockFd);
  ::signal(SIGUSR1, SIG_IGN);  // asks for the state: it must not end a program that cannot hear it yet
  handle_signals_as_new_process();
  ::execve((what.file.empty() ? what.path : what.file).c_str(), argv, envp);
  ::_exit(errno == ENOENT ? EX_UNAVAILABLE : EX_OSERR);
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& w : words) out.push_back(const_cast<char*>(w.c_str()));
  out.push_back(nullptr);
  return out;
}

}  // namespace

Result<Started> launch(const Launch& what) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return fail_errno("socketpair");
  Fd ours(pair[0]), theirs(pair[1]);
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  std::vector<std::string> words = {what.path.substr(what.path.rfind('/') + 1)};
  words.insert(words.end(), what.words.begin(), what.words.end());
  const auto argv = pointers(words);
  const auto envp = pointers(what.environment);
  const HeldSignals held;
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("fork");
  if (pid == 0) become(what, theirs.get(), argv.data(), envp.data());
  return Started{pid, std::move(ours)};
}

std::vector<std::string> program_environment(const config::Settings& settings) {
  std::vector<std::string> out = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"};
  for (const std::string& item : settings.import_environment) {
    if (item.contains('=')) {
      out.push_back(item);
    } else if (const char* value = ::getenv(item.c_str())) {
      out.push_back(item + "=" + value);
    }
  }
  return out;
}

}  // namespace pen::service
