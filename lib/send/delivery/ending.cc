#include "lib/send/delivery/ending.h"

#include <sys/eventfd.h>

#include "lib/base/check.h"

namespace pen::delivery {

Result<std::shared_ptr<Ending>> Ending::make() {
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return fail_errno("eventfd");
  return std::shared_ptr<Ending>(new Ending(std::move(event)));
}

void Ending::come() {
  if (!come_.exchange(true, std::memory_order_acq_rel)) PEN_CHECK(::eventfd_write(event_.get(), 1) == 0);
}

}  // namespace pen::delivery
