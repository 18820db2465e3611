#pragma once
/// Where the queue log keeps its bytes: numbered files of fixed size, written in place, never
/// truncated or removed; a file with damage is renamed out of the way.
///
/// Slot 0 is the small file of restart positions; slots 1, 2, … are segments. A slot is made once,
/// at full size, and then only written, synced and read, so that the steady state needs no create,
/// truncate, rename or unlink.
///
/// Thread:  write() and sync() may be called by several threads at once, for the same slot too, but for different
///          bytes; allocate() and set_aside() by one each at the same moment, for other slots; read() by another.
///          drop_cache() before any other thread.
/// Errors:  errno values; EIO from read() means that these bytes are lost (a bad sector, a file cut short);
///          ENOSPC from allocate() is an expected answer, any error of write() or sync() ends the use of the storage
///          (after a failed sync the kernel may call pages clean that are not on disk).
#include <cstdint>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/base/result.h"

namespace pen::queue_log {

using Slot = std::uint32_t;
inline constexpr Slot kPositionsSlot = 0;

class Storage {
 public:
  Storage() = default;
  Storage(const Storage&) = default;
  Storage& operator=(const Storage&) = default;
  virtual ~Storage() = default;

  /// Slots that exist, with their size in bytes (a file cut short from outside shows its real size).
  struct SlotInfo {
    Slot slot = 0;
    std::uint64_t size = 0;
    bool usable = true;  // false: the name is taken by something that is not a file
  };
  virtual Result<std::vector<SlotInfo>> list() = 0;
  /// Makes a slot of that size; every block is reserved, and file and directory entry are durable
  /// on return. A failed call leaves nothing that list() shows at full size.
  virtual Result<void> allocate(Slot slot, std::uint64_t size) = 0;
  /// All bytes or an error. Not durable before sync().
  virtual Result<void> write(Slot slot, std::uint64_t offset, Bytes bytes) = 0;
  /// Everything written to the slot before the call is durable on success. Of several calls at the same time each
  /// fails if bytes that it had to make durable were lost, whatever results the others got.
  virtual Result<void> sync(Slot slot) = 0;
  /// Fills `into`, which must lie inside the slot.
  virtual Result<void> read(Slot slot, std::uint64_t offset, MutableBytes into) = 0;
  /// These bytes will be read next, so the disk may begin. A hint: nothing depends on it, errors come with the read.
  virtual void will_read(Slot /*slot*/, std::uint64_t /*offset*/, std::uint64_t /*size*/) {}
  /// Forgets cached pages, so that the next read shows what the disk holds. Call after sync(): recovery's tool.
  virtual Result<void> drop_cache(Slot slot) = 0;
  /// Takes the slot out of the queue and leaves its bytes to a person: list() does not show it any more, allocate() may
  /// make a new one of that number. Durable on return.
  virtual Result<void> set_aside(Slot slot) = 0;
};

}  // namespace pen::queue_log
