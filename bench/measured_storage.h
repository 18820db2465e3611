#pragma once
/// A Storage that counts what passes through it, and can make every sync slower, as a slower disk would.
///
/// Thread:  as for the storage behind it; read the counters while no call is in progress.
#include <chrono>
#include <thread>

#include "lib/queue/queue_log/storage.h"

namespace pen::bench {

class MeasuredStorage final : public queue_log::Storage {
 public:
  explicit MeasuredStorage(queue_log::Storage& inner) : inner_(inner) {}

  struct Counts {
    std::uint64_t writes = 0, written = 0;  // calls and bytes
    std::uint64_t reads = 0, read = 0;
    std::uint64_t syncs = 0;
    std::uint64_t slots = 0;      // made
    std::uint64_t allocated = 0;  // their bytes
  };
  Counts counts;
  std::chrono::microseconds sync_delay{0};

  Result<std::vector<SlotInfo>> list() override { return inner_.list(); }
  Result<void> allocate(queue_log::Slot slot, std::uint64_t size) override {
    ++counts.slots;
    counts.allocated += size;
    return inner_.allocate(slot, size);
  }
  Result<void> write(queue_log::Slot slot, std::uint64_t offset, Bytes bytes) override {
    ++counts.writes;
    counts.written += bytes.size();
    return inner_.write(slot, offset, bytes);
  }
  Result<void> sync(queue_log::Slot slot) override {
    ++counts.syncs;
    if (sync_delay.count() > 0) std::this_thread::sleep_for(sync_delay);
    return inner_.sync(slot);
  }
  Result<void> read(queue_log::Slot slot, std::uint64_t offset, MutableBytes into) override {
    ++counts.reads;
    counts.read += into.size();
    return inner_.read(slot, offset, into);
  }
  void will_read(queue_log::Slot slot, std::uint64_t offset, std::uint64_t size) override {
    inner_.will_read(slot, offset, size);
  }
  Result<void> drop_cache(queue_log::Slot slot) override { return inner_.drop_cache(slot); }
  Result<void> set_aside(queue_log::Slot slot) override { return inner_.set_aside(slot); }

 private:
  queue_log::Storage& inner_;
};

}  // namespace pen::bench
