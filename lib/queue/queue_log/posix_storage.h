#pragma once
/// Storage over files of one directory: "positions" and "segment-00000001", ….
///
/// Use:     auto storage = PosixStorage::open("/var/spool/penstock/log");     // queue_log_directory; made if missing
/// Owns:    the directory, by a lock: a second open, in any process, fails with EWOULDBLOCK while this one lives, at
///          once or after the time that it is set to wait.
/// Steady:  a segment file is created once and reserved with fallocate (its directory entry synced); after that there
///          are only pwrite, pread and fdatasync. At most kMaxOpen descriptors are kept, but for those of the file that
///          was used last; some more are kept back, so that a process without descriptors can go on to its next
///          segments.
/// Thread:  see storage.h. Each thread that writes to a file has a description of it, by which it also syncs.
/// Errors:  errno with the file's name.
#include <memory>
#include <string>

#include "lib/base/time.h"
#include "lib/queue/queue_log/storage.h"

namespace pen::queue_log {

class PosixStorage final : public Storage {
 public:
  // a queue of 32 GiB without reopening; far below usual limits
  static constexpr std::size_t kMaxOpen = 512;

  /// patience: how long another process may keep the directory; it needs a process with one thread (base/file_lock.h).
  static Result<std::unique_ptr<PosixStorage>> open(const std::string& directory, seconds patience = seconds(0));
  /// The same without the lock and for reading only: offline tools. write(), sync(), allocate()
  /// fail with EROFS.
  static Result<std::unique_ptr<PosixStorage>> open_to_read(const std::string& directory);
  ~PosixStorage() override;

  Result<std::vector<SlotInfo>> list() override;
  Result<void> allocate(Slot slot, std::uint64_t size) override;
  Result<void> write(Slot slot, std::uint64_t offset, Bytes bytes) override;
  Result<void> sync(Slot slot) override;
  Result<void> read(Slot slot, std::uint64_t offset, MutableBytes into) override;
  void will_read(Slot slot, std::uint64_t offset, std::uint64_t size) override;
  Result<void> drop_cache(Slot slot) override;
  /// segment-00000007 becomes damaged-segment-00000007, or ….1, ….2 if there is one already.
  Result<void> set_aside(Slot slot) override;

 private:
  struct Impl;
  explicit PosixStorage(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pen::queue_log
