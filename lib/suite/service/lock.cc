#include "lib/suite/service/lock.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lib/base/file_lock.h"

namespace pen::service {
namespace {

/// The state directory, if it is ours alone: then nobody else has put a name into it.
Result<Fd> open_directory(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return fail_errno("open " + path);
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return fail_errno(path);
  if (st.st_uid != ::geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0) return fail(LockError::not_ours, path);
  return fd;
}

/// Links are not followed, and a file that was there before the directory was ours is not taken for ours.
Result<Fd> open_file(const Fd& directory, const char* name, int flags) {
  Fd fd(::openat(directory.get(), name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!fd && errno == ELOOP) return fail(LockError::not_ours, name);
  if (!fd) return fail_errno(std::string("open ") + name);
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return fail_errno(name);
  if (!S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != ::geteuid()) return fail(LockError::not_ours, name);
  return fd;
}

constexpr seconds kEndingPrograms{1};

/// Made where it is not there. What somebody else left under its name goes: an instance may have been another user's.
Result<Fd> make_file(const Fd& directory, const char* name) {
  auto fd = open_file(directory, name, O_RDWR | O_CREAT);
  if (fd || !fd.error().is(LockError::not_ours)) return fd;
  if (::unlinkat(directory.get(), name, 0) != 0) return fail_errno(std::string("remove ") + name);
  return open_file(directory, name, O_RDWR | O_CREAT | O_EXCL);
}

pid_t read_pid(int fd) {
  char text[32] = {};
  const ssize_t n = ::pread(fd, text, sizeof text - 1, 0);
  return n > 0 ? static_cast<pid_t>(std::atoi(text)) : 0;
}

/// The program's name, whatever directory it lies in and even if a new version has replaced its file. A process that
/// may not look at another's file, as a command of the unit without CAP_SYS_PTRACE, may see its short name.
bool is_master(const Process& process) {
  std::error_code error;
  const std::string at = "/proc/" + std::to_string(process.pid());
  const auto exe = std::filesystem::read_symlink(at + "/exe", error);
  if (error != std::errc::permission_denied)
    return !error && (exe.filename() == "master" || exe.filename() == "master (deleted)");
  std::string name;
  return std::getline(std::ifstream(at + "/comm"), name) && name == "master";
}

/// The master whose pid is in the file. A pid that an earlier master wrote may be another process's by now.
std::optional<Process> holder(int fd) {
  const pid_t pid = read_pid(fd);
  if (pid <= 0) return std::nullopt;
  auto process = Process::open(pid);
  // Looked at after it was opened: if it has not ended, the number was its own all the time.
  if (!process || !is_master(*process) || process->gone_within({})) return std::nullopt;
  return process;
}

}  // namespace

std::string state_directory(const config::Settings& settings) { return settings.queue_directory + "/pid"; }

std::optional<Process> Process::open(pid_t pid) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return std::nullopt;
  return Process(pid, std::move(fd));
}

bool Process::gone_within(milliseconds patience) const {
  pollfd ended{fd_.get(), POLLIN, 0};
  return ::poll(&ended, 1, static_cast<int>(patience.count())) == 1;
}

Result<void> Process::signal(int signo) const {
  if (::syscall(SYS_pidfd_send_signal, fd_.get(), signo, nullptr, 0) != 0)
    return fail_errno("signal to pid " + std::to_string(pid_));
  return {};
}

Result<Locks> take_locks(const std::string& state_directory, seconds patience, Fd former) {
  Locks locks;
  PEN_TRY_ASSIGN(const Fd directory, open_directory(state_directory));
  auto master = make_file(directory, "master.lock");
  if (!master) return fail(std::move(master).error().within(state_directory));
  locks.master = *std::move(master);
  if (auto locked = lock_open_file(locks.master.get(), seconds(0)); !locked) {
    if (!locked.error().is_errno(EWOULDBLOCK)) return fail(std::move(locked).error().within("master.lock"));
    const auto held = [&] {
      return fail(LockError::held, "master pid " + std::to_string(read_pid(locks.master.get())));
    };
    const auto other = holder(locks.master.get());
    if (other && !other->gone_within(kDyingMaster)) return held();
    // Of a master that is gone a child that has not begun its program yet may still have the file open.
    if (auto free = lock_open_file(locks.master.get(), patience); !free) {
      if (free.error().is_errno(EWOULDBLOCK)) return held();
      return fail(std::move(free).error().within("master.lock"));
    }
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(locks.master.get(), 0) != 0 ||
      ::pwrite(locks.master.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return fail_errno("write " + state_directory + "/master.lock");
  }
  if (former) {  // its programs share it, and go on
    locks.programs = std::move(former);
    return locks;
  }
  auto programs = make_file(directory, "programs.lock");
  if (!programs) return fail(std::move(programs).error().within(state_directory));
  locks.programs = *std::move(programs);
  if (auto locked = lock_file(locks.programs.get(), patience); !locked) {
    if (locked.error().is_errno(EWOULDBLOCK)) return fail(LockError::former_programs);
    return fail(std::move(locked).error().within(state_directory + "/programs.lock"));
  }
  return locks;
}

Result<Fd> share_programs_lock(int programs) {
  Fd own(::open(("/proc/self/fd/" + std::to_string(programs)).c_str(), O_RDONLY | O_CLOEXEC));
  if (!own) return fail_errno("open programs.lock");
  // That of master too, which took it for itself alone.
  for (const int fd : {programs, own.get()})
    if (::flock(fd, LOCK_SH | LOCK_NB) != 0) return fail_errno("lock programs.lock");
  return own;
}

Result<std::optional<Process>> running_master(const std::string& state_directory) {
  auto directory = open_directory(state_directory);
  if (!directory && directory.error().is_errno(ENOENT)) return std::nullopt;
  if (!directory) return fail(std::move(directory).error());
  auto file = open_file(*directory, "master.lock", O_RDONLY);
  if (!file && file.error().is_errno(ENOENT)) return std::nullopt;
  if (!file) return fail(std::move(file).error().within(state_directory));
  struct flock whole{};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(file->get(), F_OFD_GETLK, &whole) != 0 || whole.l_type == F_UNLCK) return std::nullopt;
  auto process = holder(file->get());
  if (!process) return fail_errno("the master that holds the lock is being started or ended", EAGAIN);
  return process;
}

Result<bool> programs_run(const std::string& state_directory) {
  auto directory = open_directory(state_directory);
  if (!directory && directory.error().is_errno(ENOENT)) return false;
  if (!directory) return fail(std::move(directory).error());
  auto file = open_file(*directory, "programs.lock", O_RDONLY);
  if (!file && file.error().is_errno(ENOENT)) return false;
  if (!file) return fail(std::move(file).error().within(state_directory));
  const auto locked = lock_file(file->get(), kEndingPrograms);
  if (!locked && !locked.error().is_errno(EWOULDBLOCK)) return fail(Error(locked.error()).within("programs.lock"));
  return !locked;
}

}  // namespace pen::service
