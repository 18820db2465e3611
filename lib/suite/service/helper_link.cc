#include "lib/suite/service/helper_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "lib/base/async/descriptor_message.h"
#include "lib/base/forked_signals.h"

namespace pen::service {
namespace {

constexpr int kHelperSocket = 3;  // lib/send/mailbox/helper.h

/// Between fork and exec: nothing but system calls.
[[noreturn]] void become(int socket, const char* path, char* const* argv, char* const* envp) {
  if (socket != kHelperSocket && ::dup2(socket, kHelperSocket) < 0) ::_exit(EX_OSERR);
  if (socket == kHelperSocket && ::fcntl(socket, F_SETFD, 0) != 0) ::_exit(EX_OSERR);
  if (::close_range(kHelperSocket + 1, ~0U, 0) != 0) ::_exit(EX_OSERR);
  handle_signals_as_new_process();
  ::setsid();  // what a terminal tells master it tells its programs itself
  ::execve(path, argv, envp);
  ::_exit(EX_UNAVAILABLE);
}

bool ended(int socket) {
  pollfd end{socket, 0, 0};
  return ::poll(&end, 1, 0) == 1 && (end.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace

Result<void> HelperLink::run(const Options& options) {
  struct stat st{};
  if (::stat(options.path.c_str(), &st) != 0) return fail_errno(options.path);
  const File file{st.st_dev, st.st_ino};
  if (socket_ && file == file_ && !ended(socket_.get())) return {};
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return fail_errno("socketpair");
  Fd ours(pair[0]), theirs(pair[1]);
  const timeval patience{.tv_sec = kPatience, .tv_usec = 0};
  ::setsockopt(ours.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  std::array<std::string, 3> words = {"become", "--helper", options.config_directory};
  std::array<char*, 4> argv{};
  for (std::size_t i = 0; i < words.size(); ++i) argv[i] = words[i].data();
  std::vector<char*> envp;
  for (const std::string& entry : options.environment) envp.push_back(const_cast<char*>(entry.c_str()));
  envp.push_back(nullptr);
  const HeldSignals held;
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("fork");
  if (pid == 0) {
    const pid_t second = ::fork();
    if (second == 0) become(theirs.get(), options.path.c_str(), argv.data(), envp.data());
    ::_exit(second < 0 ? EX_OSERR : EX_OK);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return fail_errno("waitpid");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != EX_OK) return fail_errno("fork of the helper", EAGAIN);
  socket_ = std::move(ours);
  file_ = file;
  return {};
}

Result<Fd> HelperLink::introduce(const std::string& program, const Arguments& arguments) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return fail_errno("socketpair");
  Fd ours(pair[0]), theirs(pair[1]);
  const Introduction said{.program = program, .words = arguments.to_words()};
  PEN_TRY(async::send_descriptor_message(socket_.get(), encode(said), theirs.get()));
  return ours;
}

}  // namespace pen::service
