// Preloaded into a mail server, makes every sync take longer and counts them, so that two servers can be compared on the
// same slow disk:
//
//   LD_PRELOAD=.../slowsync.so SLOWSYNC_US=2000 SLOWSYNC_COUNT=FILE program …
//
// SLOWSYNC_US: added to each call, in microseconds. SLOWSYNC_COUNT: a file of at least 8 bytes that all processes may
// write; its first 8 bytes are the number of calls so far, over all of them. Either may be left out.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>

namespace {

long added = 0;
unsigned long* calls = nullptr;

[[gnu::constructor]] void begin() {
  if (const char* us = std::getenv("SLOWSYNC_US")) added = std::strtol(us, nullptr, 10);
  const char* file = std::getenv("SLOWSYNC_COUNT");
  if (file == nullptr) return;
  const int fd = ::open(file, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* const map = ::mmap(nullptr, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (map != MAP_FAILED) calls = static_cast<unsigned long*>(map);
}

void one_sync() {
  const int kept = errno;
  if (calls != nullptr) __atomic_fetch_add(calls, 1, __ATOMIC_RELAXED);
  timespec left{added / 1'000'000, added % 1'000'000 * 1000};
  while (added > 0 && ::nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
  errno = kept;
}

}  // namespace

extern "C" {
int fsync(int fd) {
  one_sync();
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
int fdatasync(int fd) {
  one_sync();
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}
int syncfs(int fd) noexcept {
  one_sync();
  return static_cast<int>(::syscall(SYS_syncfs, fd));
}
int sync_file_range(int fd, off_t from, off_t bytes, unsigned flags) {
  one_sync();
  return static_cast<int>(::syscall(SYS_sync_file_range, fd, from, bytes, flags));
}
int msync(void* address, size_t bytes, int flags) {
  if ((flags & MS_SYNC) != 0) one_sync();
  return static_cast<int>(::syscall(SYS_msync, address, bytes, flags));
}
}
