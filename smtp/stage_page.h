#pragma once
/// The page shared with qmgr that survives our death: per job slot, whether end-of-data may have reached the peer.
///
/// Use:     StagePage page;  PEN_TRY(page.map(fd, slots));  page.set(job.slot, Stage::committed);
/// A store is a plain byte in shared memory, no system call; it is made before the bytes it tells of can leave.
#include <atomic>
#include <cstdint>

#include "lib/base/result.h"
#include "lib/ipc/delivery.h"

namespace pen::smtp {

class StagePage {
 public:
  StagePage() = default;
  StagePage(const StagePage&) = delete;
  StagePage& operator=(const StagePage&) = delete;
  ~StagePage() { unmap(); }
  /// Maps the memfd (which may be closed afterwards). Errors: errno of fstat or mmap, EINVAL when it is too small.
  Result<void> map(int fd, std::uint32_t slots);
  /// A slot beyond the page is ignored: set() is only about making a crash cheaper.
  void set(std::uint32_t slot, ipc::delivery::Stage stage) {
    if (slot < slots_)
      std::atomic_ref<std::uint8_t>(bytes_[slot])
          .store(static_cast<std::uint8_t>(stage), std::memory_order_release);
  }
  std::uint32_t slots() const { return slots_; }

 private:
  void unmap();
  std::uint8_t* bytes_ = nullptr;
  std::uint32_t slots_ = 0;
};

}  // namespace pen::smtp
