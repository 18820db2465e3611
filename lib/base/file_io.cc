#include "lib/base/file_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/fd.h"

namespace pen {
namespace {

/// put(bytes) is a system call that takes some of them.
template <typename Put>
Result<void> put_all(std::string_view bytes, std::string_view what, const Put& put) {
  while (!bytes.empty()) {
    const ssize_t n = put(bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail_errno(what, n == 0 ? EIO : errno);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace

Result<void> write_all(int fd, std::string_view bytes, std::string_view what) {
  return put_all(bytes, what, [fd](std::string_view some) { return ::write(fd, some.data(), some.size()); });
}

Result<void> write_all_at(int fd, std::string_view bytes, std::uint64_t offset, std::string_view what) {
  const char* const begin = bytes.data();
  return put_all(bytes, what, [=](std::string_view some) {
    const auto done = static_cast<std::uint64_t>(some.data() - begin);
    return ::pwrite(fd, some.data(), some.size(), static_cast<off_t>(offset + done));
  });
}

Result<std::size_t> read_at(int fd, std::uint64_t offset, std::span<char> into, std::string_view what) {
  std::size_t got = 0;
  while (got < into.size()) {
    const ssize_t n = ::pread(fd, into.data() + got, into.size() - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(what);
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  return got;
}

Result<std::string> read_at(int fd, std::uint64_t offset, std::size_t size, std::string_view what) {
  std::string text(size, '\0');
  PEN_TRY_ASSIGN(const std::size_t got, read_at(fd, offset, std::span(text), what));
  text.resize(got);
  return text;
}

Result<void> sync_directory(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return fail_errno("sync " + path);
  return {};
}

}  // namespace pen
