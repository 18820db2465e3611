#include "lib/base/file_lock.h"

#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

namespace pen {

Result<void> lock_file(int fd, seconds patience) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK || patience.count() == 0) return fail_errno("lock");
  // The kernel wakes us when the last holder is gone; the alarm only bounds the wait.
  struct sigaction action{}, old{};
  action.sa_handler = [](int) {};
  ::sigaction(SIGALRM, &action, &old);
  ::alarm(static_cast<unsigned>(patience.count()));
  const int rc = ::flock(fd, LOCK_EX);
  const int error = errno;
  ::alarm(0);
  ::sigaction(SIGALRM, &old, nullptr);
  if (rc == 0) return {};
  return fail_errno("lock", error == EINTR ? EWOULDBLOCK : error);
}

}  // namespace pen
