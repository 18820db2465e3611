#include "lib/suite/service/lease_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>

namespace pen::service {
namespace {
constexpr std::size_t kBytes = sizeof(std::atomic<std::int64_t>);
static_assert(std::atomic<std::int64_t>::is_always_lock_free);  // two processes look at it
}  // namespace

std::chrono::nanoseconds boot_now() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

Result<LeasePage> LeasePage::create() {
  Fd fd(::memfd_create("lease", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fail_errno("memfd_create");
  // A process that shortened it would end every process that looks at it.
  if (::ftruncate(fd.get(), kBytes) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return fail_errno("lease page");
  return map(std::move(fd));
}

Result<LeasePage> LeasePage::open(Fd fd) {
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return fail_errno("lease page");
  if (st.st_size < static_cast<off_t>(kBytes)) return fail_errno("lease page", EINVAL);
  return map(std::move(fd));
}

Result<LeasePage> LeasePage::map(Fd fd) {
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return fail_errno("lease page");
  return LeasePage(std::move(fd), static_cast<std::atomic<std::int64_t>*>(memory));
}

LeasePage::~LeasePage() {
  if (until_ != nullptr) ::munmap(until_, kBytes);
}

}  // namespace pen::service
