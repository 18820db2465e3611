#pragma once
/// Storage that writes while this host has the lease on the queue, and not a moment longer (docs/standby.md).
///
/// Rules:   the lease is checked before each write, and after each sync, because the queue log answers by the sync:
///          what was synced without the lease is not acknowledged. After the first refusal every call fails, so the
///          process ends as after a disk that fails.
/// Errors:  EROFS, and those of the storage below.
/// Thread:  as the storage below.
#include <memory>
#include <utility>

#include "lib/queue/queue_log/storage.h"
#include "lib/suite/service/lease_page.h"

namespace pen::qmgr {

class GuardedStorage final : public queue_log::Storage {
 public:
  using Slot = queue_log::Slot;
  GuardedStorage(std::unique_ptr<queue_log::Storage> below, service::LeasePage lease)
      : below_(std::move(below)), lease_(std::move(lease)) {}

  Result<std::vector<SlotInfo>> list() override { return below_->list(); }
  Result<void> allocate(Slot slot, std::uint64_t size) override {
    PEN_TRY(held());
    return below_->allocate(slot, size);
  }
  Result<void> write(Slot slot, std::uint64_t offset, Bytes bytes) override {
    PEN_TRY(held());
    return below_->write(slot, offset, bytes);
  }
  Result<void> sync(Slot slot) override {
    PEN_TRY(held());
    PEN_TRY(below_->sync(slot));
    return held();
  }
  Result<void> read(Slot slot, std::uint64_t offset, MutableBytes into) override {
    return below_->read(slot, offset, into);
  }
  void will_read(Slot slot, std::uint64_t offset, std::uint64_t size) override {
    below_->will_read(slot, offset, size);
  }
  Result<void> drop_cache(Slot slot) override { return below_->drop_cache(slot); }
  Result<void> set_aside(Slot slot) override {
    PEN_TRY(held());
    return below_->set_aside(slot);
  }

 private:
  Result<void> held() {
    if (!lost_ && lease_.holds()) return {};
    lost_ = true;
    return fail_errno("the lease of this host on the queue has run out", EROFS);
  }
  std::unique_ptr<queue_log::Storage> below_;
  service::LeasePage lease_;
  std::atomic<bool> lost_ = false;
};

}  // namespace pen::qmgr
