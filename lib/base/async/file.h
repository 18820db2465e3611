#pragma once
/// Files without blocking the loop.
///
/// Use:     auto file = co_await File::open(pool, path, O_RDWR | O_CREAT, 0600);
///          co_await file->pwrite(std::move(text), offset);   co_await file->sync();
/// Errors:  errno. After a failed sync every further sync() fails with the same error: the kernel may have
///          dropped the dirty pages, so a later success would prove nothing.
/// Owns:    operations share the descriptor, which is closed when the File and the last running operation are gone.
/// Thread:  the loop's; the system calls run in the pool.
#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/async/handler_pool.h"
#include "lib/base/fd.h"

namespace pen::async {

class File {
 public:
  /// Opens (open(2) flags, mode for a new file); O_CLOEXEC is added.
  static Task<Result<File>> open(HandlerPool& pool, std::string path, int flags, unsigned mode = 0600);
  /// Takes an open descriptor.
  File(HandlerPool& pool, Fd fd);

  /// Reads up to size bytes from offset; fewer only at the end of the file.
  Task<Result<std::string>> pread(std::size_t size, std::uint64_t offset) const;
  /// Writes all of data at offset.
  Task<Result<void>> pwrite(std::string data, std::uint64_t offset) const;
  /// The same for a buffer that the caller wants back: nobody may change the buffer until this has ended.
  Task<Result<void>> pwrite(std::shared_ptr<const std::string> data, std::uint64_t offset) const;
  /// fdatasync(); each call makes one.
  Task<Result<void>> sync() const;
  int fd() const { return fd_->get(); }
  const std::shared_ptr<Fd>& shared_fd() const { return fd_; }
  HandlerPool& pool() const { return *pool_; }

 private:
  HandlerPool* pool_;
  std::shared_ptr<Fd> fd_;
};

}  // namespace pen::async
