#pragma once
/// The page shared between qmgr and a delivery program that survives the program's death: for each job slot, how far
/// the job may have come.
///
/// Use:     qmgr:     PEN_TRY_ASSIGN(auto fd, make_stage_page(slots));  page.map(fd.get(), slots);
///                    the descriptor travels to the program
///          program:  PEN_TRY(page.map(fd, slots));  page.set(job.slot, Stage::committed);
/// A store is a plain byte in shared memory, no system call; it is made before the bytes it tells of can leave.
/// Trust:   the file is sealed: neither side can make it shorter, which would end the other at its next look
///          (SIGBUS). Bytes that the other side writes are read as one at a time and mean no more than a stage.
#include <cstdint>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/suite/ipc/delivery.h"

namespace pen::ipc {

inline constexpr std::uint32_t kMaxStageSlots = 1024 * 1024;

/// A page of zeros whose size is fixed. Errors: errno.
Result<Fd> make_stage_page(std::uint32_t slots);

class StagePage {
 public:
  StagePage() = default;
  StagePage(const StagePage&) = delete;
  StagePage& operator=(const StagePage&) = delete;
  ~StagePage() { unmap(); }
  /// Maps the file (which may be closed afterwards) in place of one mapped before. Errors: errno; EINVAL when it is
  /// too small or slots are out of bounds; EPERM when its size is not sealed.
  Result<void> map(int fd, std::uint32_t slots);
  bool mapped() const { return bytes_ != nullptr; }
  /// A slot beyond the page is ignored: set() is only about making a crash cheaper.
  void set(std::uint32_t slot, delivery::Stage stage);
  /// slot: below slots().
  delivery::Stage at(std::uint32_t slot) const;
  std::uint32_t slots() const { return slots_; }

 private:
  void unmap();
  std::uint8_t* bytes_ = nullptr;
  std::uint32_t slots_ = 0;
};

}  // namespace pen::ipc
