#pragma once
/// Files without blocking the loop, and one fdatasync for many who wait for it.
///
/// Use:     auto file = co_await File::open(pool, path, O_RDWR | O_CREAT, 0600);
///          co_await file->pwrite(std::move(text), offset);   co_await file->sync();
/// GroupSync: group.sync() may be awaited by many at once. A call that comes while a sync runs shares the next
///          one, so that everything written before the call is covered.
/// Errors:  errno. After a failed sync every further sync() fails with the same error: the kernel may have
///          dropped the dirty pages, so a later success would prove nothing.
/// Owns:    operations share the descriptor; it is closed when the File and the last running operation are
///          gone.
/// Thread:  the loop's; the system calls run in the pool.
#include <cstdint>
#include <memory>
#include <string>

#include "lib/async/fd.h"
#include "lib/async/handler_pool.h"

namespace pen::async {

class File {
 public:
  /// Opens (open(2) flags, mode for a new file); O_CLOEXEC is added.
  static Task<Result<File>> open(HandlerPool& pool, std::string path, int flags,
                                 unsigned mode = 0600);
  /// Takes an open descriptor.
  File(HandlerPool& pool, Fd fd);

  /// Up to size bytes from offset; fewer only at the end of the file.
  Task<Result<std::string>> pread(std::size_t size, std::uint64_t offset) const;
  /// All of data at offset.
  Task<Result<void>> pwrite(std::string data, std::uint64_t offset) const;
  /// The same of a buffer that is wanted back: nothing touches it when this has ended, until then nobody else may.
  Task<Result<void>> pwrite(std::shared_ptr<const std::string> data, std::uint64_t offset) const;
  /// fdatasync, one per call (see GroupSync).
  Task<Result<void>> sync() const;
  int fd() const { return fd_->get(); }
  const std::shared_ptr<Fd>& shared_fd() const { return fd_; }
  HandlerPool& pool() const { return *pool_; }

 private:
  HandlerPool* pool_;
  std::shared_ptr<Fd> fd_;
};

class GroupSync {
 public:
  /// work is the sync itself and runs in the pool (default form: fdatasync of the file). It owns
  /// what it touches.
  GroupSync(Loop& loop, HandlerPool& pool, std::function<Result<void>()> work);
  GroupSync(Loop& loop, const File& file);
  ~GroupSync();
  GroupSync(const GroupSync&) = delete;
  GroupSync& operator=(const GroupSync&) = delete;

  /// Success: everything written before this call is on disk.
  Task<Result<void>> sync(Until until = {});
  /// Syncs done so far.
  std::uint64_t rounds() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace pen::async
