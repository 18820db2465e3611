#include "smtp/stage_page.h"

#include <sys/mman.h>
#include <sys/stat.h>

namespace pen::smtp {

Result<void> StagePage::map(int fd, std::uint32_t slots) {
  unmap();
  if (slots == 0) return {};
  struct stat st{};
  if (::fstat(fd, &st) != 0) return fail_errno("stage page");
  if (st.st_size < static_cast<off_t>(slots)) return fail_errno("stage page too small", EINVAL);
  void* at = ::mmap(nullptr, slots, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return fail_errno("stage page");
  bytes_ = static_cast<std::uint8_t*>(at);
  slots_ = slots;
  return {};
}

void StagePage::unmap() {
  if (bytes_ != nullptr) ::munmap(bytes_, slots_);
  bytes_ = nullptr;
  slots_ = 0;
}

}  // namespace pen::smtp
