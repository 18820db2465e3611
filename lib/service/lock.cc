#include "lib/service/lock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "lib/base/file_lock.h"

namespace pen::service {
namespace {

Result<async::Fd> open_lock(const std::string& path) {
  async::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) return fail_errno("open " + path);
  return fd;
}

struct flock whole_file() {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

pid_t read_pid(int fd) {
  char text[32] = {};
  const ssize_t n = ::pread(fd, text, sizeof text - 1, 0);
  return n > 0 ? static_cast<pid_t>(std::atoi(text)) : 0;
}

bool lock_whole(int fd) {
  struct flock whole = whole_file();
  return ::fcntl(fd, F_OFD_SETLK, &whole) == 0;
}

}  // namespace

bool wait_until_gone(pid_t pid, milliseconds patience) {
  const async::Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return errno == ESRCH;
  pollfd ended{process.get(), POLLIN, 0};
  return ::poll(&ended, 1, static_cast<int>(patience.count())) == 1;
}

Result<Locks> take_locks(const std::string& data_directory, seconds patience) {
  Locks locks;
  PEN_TRY_ASSIGN(locks.master, open_lock(data_directory + "/master.lock"));
  if (!lock_whole(locks.master.get())) {
    if (errno != EAGAIN && errno != EACCES) {
      return fail_errno("lock " + data_directory + "/master.lock");
    }
    const pid_t holder = read_pid(locks.master.get());
    const bool gone = holder > 0 && wait_until_gone(holder, kDyingMaster);
    if (!gone || !lock_whole(locks.master.get())) {
      return fail(LockError::held, "master pid " + std::to_string(holder));
    }
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(locks.master.get(), 0) != 0 ||
      ::pwrite(locks.master.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return fail_errno("write " + data_directory + "/master.lock");
  }
  PEN_TRY_ASSIGN(locks.programs, open_lock(data_directory + "/programs.lock"));
  if (auto locked = lock_file(locks.programs.get(), patience); !locked) {
    if (locked.error().is_errno(EWOULDBLOCK)) return fail(LockError::former_programs);
    return fail(std::move(locked).error().within(data_directory + "/programs.lock"));
  }
  return locks;
}

std::optional<pid_t> running_master(const std::string& data_directory) {
  const async::Fd fd(::open((data_directory + "/master.lock").c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  struct flock whole = whole_file();
  if (::fcntl(fd.get(), F_OFD_GETLK, &whole) != 0 || whole.l_type == F_UNLCK) return std::nullopt;
  const pid_t pid = read_pid(fd.get());
  return pid > 0 ? std::optional(pid) : std::nullopt;
}

}  // namespace pen::service
