#include "lib/base/file_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace pen {
namespace {

/// take(false) takes the lock if it is free, take(true) waits for it. The kernel wakes us when the last holder is gone;
/// the alarm only bounds the wait.
Result<void> lock_within(seconds patience, auto take) {
  if (take(false)) return {};
  if (errno != EWOULDBLOCK || patience.count() == 0) return fail_errno("lock");
  struct sigaction action{}, old{};
  action.sa_handler = [](int) {};
  ::sigaction(SIGALRM, &action, &old);
  ::alarm(static_cast<unsigned>(patience.count()));
  const bool taken = take(true);
  const int error = errno;
  ::alarm(0);
  ::sigaction(SIGALRM, &old, nullptr);
  if (taken) return {};
  return fail_errno("lock", error == EINTR ? EWOULDBLOCK : error);
}

}  // namespace

Result<void> lock_file(int fd, seconds patience) {
  return lock_within(patience, [fd](bool wait) { return ::flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) == 0; });
}

Result<void> lock_open_file(int fd, seconds patience) {
  return lock_within(patience, [fd](bool wait) {
    struct flock whole{};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    return ::fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &whole) == 0;
  });
}

}  // namespace pen
