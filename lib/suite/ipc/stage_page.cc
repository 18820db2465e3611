#include "lib/suite/ipc/stage_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "lib/base/check.h"

namespace pen::ipc {

using delivery::Stage;

Result<Fd> make_stage_page(std::uint32_t slots) {
  Fd fd(::memfd_create("stages", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fail_errno("stage page");
  if (::ftruncate(fd.get(), static_cast<off_t>(slots)) != 0) return fail_errno("stage page");
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return fail_errno("seal the stage page");
  return fd;
}

Result<void> StagePage::map(int fd, std::uint32_t slots) {
  unmap();
  if (slots == 0 || slots > kMaxStageSlots) return fail_errno("stage page: slots", EINVAL);
  // In this order: a size that is sealed is the one that is looked at next.
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return fail_errno("stage page without a sealed size", EPERM);
  struct stat st{};
  if (::fstat(fd, &st) != 0) return fail_errno("stage page");
  if (st.st_size < static_cast<off_t>(slots)) return fail_errno("stage page too small", EINVAL);
  void* at = ::mmap(nullptr, slots, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return fail_errno("stage page");
  bytes_ = static_cast<std::uint8_t*>(at);
  slots_ = slots;
  return {};
}

void StagePage::set(std::uint32_t slot, Stage stage) {
  if (slot < slots_)
    std::atomic_ref<std::uint8_t>(bytes_[slot]).store(static_cast<std::uint8_t>(stage), std::memory_order_release);
}

Stage StagePage::at(std::uint32_t slot) const {
  PEN_CHECK(slot < slots_, "a slot beyond the stage page");
  return static_cast<Stage>(std::atomic_ref<std::uint8_t>(bytes_[slot]).load(std::memory_order_acquire));
}

void StagePage::unmap() {
  if (bytes_ != nullptr) ::munmap(bytes_, slots_);
  bytes_ = nullptr;
  slots_ = 0;
}

}  // namespace pen::ipc
