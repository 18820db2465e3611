#pragma once
/// Storage for the queue log in memory that knows what a power cut would leave: for every sector
/// each version since the last sync. Can be cut at any operation, can fail, can be full.
///
/// Use:     FaultStorage disk;                                                  // … run the log on it …
///          FaultStorage after = disk.cut(FaultStorage::Cut::random, random);   // what the next start finds
///          disk.before_operation = [&](const FaultStorage& now) { … };         // cut before each operation
/// Model:   sectors of 512 bytes are written whole or not at all; unsynced sectors reach the disk in any order,
///          each in any of the states it had since the last sync (the page cache may be written back at any
///          moment). A kill keeps the page cache. A failed sync leaves pages clean: reads still show the new
///          bytes, later syncs do not write them, drop_cache() brings the old ones back.
/// Thread:  one.
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "lib/queue/queue_log/storage.h"

namespace pen::testing {

class FaultStorage final : public queue_log::Storage {
 public:
  using Slot = queue_log::Slot;
  enum class Cut {
    kill,    // process dies, the page cache stays
    none,    // power cut, nothing unsynced was written back
    all,     // power cut, everything was written back
    random,  // power cut, each page in any of its states
    torn,    // power cut, each sector in any of its states
  };
  static constexpr Cut kCuts[] = {Cut::kill, Cut::none, Cut::all, Cut::random, Cut::torn};

  FaultStorage();
  ~FaultStorage() override;
  FaultStorage(FaultStorage&&) noexcept;
  FaultStorage& operator=(FaultStorage&&) noexcept;

  Result<std::vector<SlotInfo>> list() override;
  Result<void> allocate(Slot slot, std::uint64_t size) override;
  Result<void> write(Slot slot, std::uint64_t offset, Bytes bytes) override;
  Result<void> sync(Slot slot) override;
  Result<void> read(Slot slot, std::uint64_t offset, MutableBytes into) override;
  Result<void> drop_cache(Slot slot) override;
  Result<void> set_aside(Slot slot) override;

  /// What a restart after the event finds. Hooks and faults are not carried over, the capacity is.
  FaultStorage cut(Cut how, Random& random) const;

  /// Called before each write, sync, allocate (twice: before the file is made, and before it has its size) and
  /// set_aside takes effect.
  std::function<void(const FaultStorage&)> before_operation;
  /// The sync with this number (from 1) and all later calls fail with EIO; 0: never. Pages become
  /// clean, unwritten.
  std::uint64_t fail_sync = 0;
  bool failed_sync() const { return fail_sync != 0 && syncs_ >= fail_sync; }
  /// The write with this number (from 1) and all later ones fail after half of their bytes; 0: never.
  std::uint64_t fail_write = 0;
  bool fail_one_write = false;  // only that one: the ones after it succeed again
  int write_errno = EIO;
  bool failed_write() const { return fail_write != 0 && writes_ >= fail_write; }
  struct HalfWritten {
    Slot slot = 0;
    std::uint64_t offset = 0;
    std::size_t bytes = 0;  // that were to be written
  };
  /// Writes that failed, here and in what this was cut from, oldest first.
  const std::vector<HalfWritten>& half_written() const { return half_written_; }
  /// Not 0: set_aside() fails with it.
  int set_aside_errno = 0;
  /// How many slots the disk has room for.
  std::size_t capacity = SIZE_MAX;

  std::uint64_t operations() const { return operations_; }
  std::uint64_t syncs() const { return syncs_; }
  std::uint64_t writes() const { return writes_; }
  std::uint64_t bytes_written() const { return bytes_written_; }
  std::size_t slots() const;
  /// Damage from outside: flips the bits on disk and in the cache.
  void flip(Slot slot, std::uint64_t offset, unsigned char bits);
  /// A file cut short or lost from outside.
  void truncate(Slot slot, std::uint64_t size);
  void lose(Slot slot);
  /// Reads that touch these bytes fail with EIO, in this storage and in what is cut from it.
  void make_unreadable(Slot slot, std::uint64_t offset, std::uint64_t bytes);
  /// Something that is not a file has the slot's name.
  void put_foreign(Slot slot) { foreign_.insert(slot); }
  std::string content(Slot slot) const;
  bool has(Slot slot) const { return files_.contains(slot); }
  /// How often slots were set aside.
  std::size_t aside() const { return aside_; }

 private:
  struct File;
  std::map<Slot, std::unique_ptr<File>> files_;
  std::map<Slot, std::set<std::uint64_t>> unreadable_;  // sectors
  std::set<Slot> foreign_;
  std::size_t aside_ = 0;
  std::vector<HalfWritten> half_written_;
  std::uint64_t operations_ = 0;
  std::uint64_t syncs_ = 0;
  std::uint64_t writes_ = 0;
  std::uint64_t bytes_written_ = 0;
};

}  // namespace pen::testing
