#include "lib/base/async/file.h"

#include <fcntl.h>
#include <unistd.h>

#include "lib/base/async/sync.h"
#include "lib/base/file_io.h"

namespace pen::async {
namespace {

Result<void> sync_data(const Fd& fd) {
  while (::fdatasync(fd.get()) != 0)
    if (errno != EINTR) return fail_errno("fdatasync");
  return {};
}

}  // namespace

File::File(HandlerPool& pool, Fd fd) : pool_(&pool), fd_(std::make_shared<Fd>(std::move(fd))) {}

Task<Result<File>> File::open(HandlerPool& pool, std::string path, int flags, unsigned mode) {
  auto open_now = [path = std::move(path), flags, mode]() -> Result<std::shared_ptr<Fd>> {
    Fd fd(::open(path.c_str(), flags | O_CLOEXEC, mode));
    if (!fd) return fail_errno("open " + path);
    return std::make_shared<Fd>(std::move(fd));
  };
  PEN_CO_TRY_ASSIGN(const std::shared_ptr<Fd> fd, co_await pool.run(std::move(open_now)));
  co_return File(pool, std::move(*fd));
}

Task<Result<std::string>> File::pread(std::size_t size, std::uint64_t offset) const {
  auto read_now = [fd = fd_, size, offset] { return read_at(fd->get(), offset, size, "read"); };
  co_return co_await pool_->run(std::move(read_now));
}

Task<Result<void>> File::pwrite(std::string data, std::uint64_t offset) const {
  return pwrite(std::make_shared<const std::string>(std::move(data)), offset);
}

Task<Result<void>> File::pwrite(std::shared_ptr<const std::string> data, std::uint64_t offset) const {
  auto write_now = [fd = fd_, data = std::move(data), offset] {
    return write_all_at(fd->get(), *data, offset, "write");
  };
  co_return co_await pool_->run(std::move(write_now));
}

Task<Result<void>> File::sync() const {
  auto sync_now = [fd = fd_] { return sync_data(*fd); };
  co_return co_await pool_->run(std::move(sync_now));
}

}  // namespace pen::async
