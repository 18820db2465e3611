// Preloaded into a mail server, makes its disk worse: every sync takes longer, and syncs and writes fail on demand.
//
//   LD_PRELOAD=.../slowsync.so SLOWSYNC_US=2000 SLOWSYNC_COUNT=FILE SLOWSYNC_FAULTS=FILE SLOWSYNC_SEED=1 program …
//
// SLOWSYNC_US: microseconds added to each sync, so that two servers can be compared on the same slow disk.
// SLOWSYNC_COUNT: a file of at least 24 bytes that all processes may write. Its first 8 bytes are the number of syncs
// of all of them, the next 8 the number of faults below, the last 8 the nanoseconds that the syncs took.
// SLOWSYNC_FAULTS: a file that is read at each call; it may appear, change and vanish while the programs run. Each
// line has a fault and a part of a path; for files whose path contains that part, these calls
//   sync PART    fail with EIO (fsync, fdatasync), and nothing is synced
//   write PART   fail with EIO (pwrite), and nothing is written
//   full PART    fail with ENOSPC (pwrite), and nothing is written
//   short PART   write the first half of what they are given (pwrite), at random in one of two
// SLOWSYNC_SEED: the seed of that chance, the same in every process; default 1.
// Each of these variables may be left out.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>

namespace {

struct Counters {
  unsigned long syncs, faults, nanoseconds;
};

long added = 0;
const char* faults = nullptr;
unsigned long chance = 1;
Counters* counters = nullptr;

[[gnu::constructor]] void begin() {
  if (const char* us = std::getenv("SLOWSYNC_US")) added = std::strtol(us, nullptr, 10);
  if (const char* seed = std::getenv("SLOWSYNC_SEED")) chance = std::strtoul(seed, nullptr, 10);
  faults = std::getenv("SLOWSYNC_FAULTS");
  const char* file = std::getenv("SLOWSYNC_COUNT");
  if (file == nullptr) return;
  const int fd = ::open(file, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* const map = ::mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (map != MAP_FAILED) counters = static_cast<Counters*>(map);
}

unsigned long nanoseconds() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<unsigned long>(t.tv_sec) * 1'000'000'000 + static_cast<unsigned long>(t.tv_nsec);
}

/// Lasts for one sync.
class OneSync {
 public:
  OneSync() {
    const int kept = errno;
    timespec left{added / 1'000'000, added % 1'000'000 * 1000};
    while (added > 0 && ::nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
    errno = kept;
  }
  OneSync(const OneSync&) = delete;
  OneSync& operator=(const OneSync&) = delete;
  ~OneSync() {
    if (counters == nullptr) return;
    __atomic_fetch_add(&counters->syncs, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counters->nanoseconds, nanoseconds() - begun_, __ATOMIC_RELAXED);
  }

 private:
  unsigned long begun_ = nanoseconds();
};

/// True: the file of faults has this fault for the file of `fd`.
bool told_to(std::string_view fault, int fd) {
  if (faults == nullptr) return false;
  const int kept = errno;
  char told[1024], link[64], path[PATH_MAX];
  ssize_t size = -1, length = -1;
  if (const int list = ::open(faults, O_RDONLY | O_CLOEXEC); list >= 0) {
    size = ::read(list, told, sizeof told);
    ::close(list);
  }
  if (size > 0) {
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = ::readlink(link, path, sizeof path);
  }
  errno = kept;
  if (size <= 0 || length <= 0) return false;
  const std::string_view name(path, static_cast<std::size_t>(length));
  std::string_view rest(told, static_cast<std::size_t>(size));
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    auto line = rest.substr(0, end);
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    if (line.size() <= fault.size() + 1 || !line.starts_with(fault) || line[fault.size()] != ' ') continue;
    line.remove_prefix(fault.size() + 1);
    if (name.find(line) != name.npos) return true;
  }
  return false;
}

bool fault(std::string_view which, int fd) {
  if (!told_to(which, fd)) return false;
  if (counters != nullptr) __atomic_fetch_add(&counters->faults, 1, __ATOMIC_RELAXED);
  return true;
}

/// SplitMix64: one random number for each call, in any thread.
bool heads() {
  constexpr unsigned long kStep = 0x9e3779b97f4a7c15;
  unsigned long x = __atomic_add_fetch(&chance, kStep, __ATOMIC_RELAXED);
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111eb;
  return ((x ^ (x >> 31U)) & 1U) != 0;
}

int failure(int why) {
  errno = why;
  return -1;
}

}  // namespace

extern "C" {
int fsync(int fd) {
  const OneSync sync;
  if (fault("sync", fd)) return failure(EIO);
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
int fdatasync(int fd) {
  const OneSync sync;
  if (fault("sync", fd)) return failure(EIO);
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}
int syncfs(int fd) noexcept {
  const OneSync sync;
  return static_cast<int>(::syscall(SYS_syncfs, fd));
}
int sync_file_range(int fd, off_t from, off_t bytes, unsigned flags) {
  const OneSync sync;
  return static_cast<int>(::syscall(SYS_sync_file_range, fd, from, bytes, flags));
}
int msync(void* address, size_t bytes, int flags) {
  if ((flags & MS_SYNC) == 0) return static_cast<int>(::syscall(SYS_msync, address, bytes, flags));
  const OneSync sync;
  return static_cast<int>(::syscall(SYS_msync, address, bytes, flags));
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  if (fault("write", fd)) return failure(EIO);
  if (fault("full", fd)) return failure(ENOSPC);
  if (size > 1 && faults != nullptr && heads() && fault("short", fd)) size /= 2;
  return ::syscall(SYS_pwrite64, fd, bytes, size, offset);
}
ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t offset) { return pwrite(fd, bytes, size, offset); }
}
