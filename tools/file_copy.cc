#include "tools/file_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "lib/base/fd.h"

namespace pen::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPiece = 1U << 20;

Result<void> keep_owner(const std::string& path, const struct stat& st) {
  if (::geteuid() == 0 && ::lchown(path.c_str(), st.st_uid, st.st_gid) != 0) return fail_errno(path);
  return {};
}

Result<void> write_all(int fd, const char* data, std::size_t size, const std::string& path) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(path);
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return {};
}

Result<std::uint64_t> copy_below(const std::string& from, const std::string& to, const std::string& inside,
                                 const CopyOptions& options) {
  struct stat st{};
  if (::lstat(from.c_str(), &st) != 0) {
    if (errno == ENOENT && !inside.empty()) return 0;
    return fail_errno(from);
  }
  if (!inside.empty() && options.skip && options.skip(from, inside)) return 0;
  if (!inside.empty() && options.instead) {
    PEN_TRY_ASSIGN(const bool did, options.instead(from, to));
    if (did) return 0;
  }
  std::uint64_t bytes = 0;
  if (S_ISLNK(st.st_mode)) {
    std::error_code error;
    fs::copy_symlink(from, to, error);
    if (error) return fail_errno(to, error.value());
    PEN_TRY(keep_owner(to, st));
  } else if (S_ISREG(st.st_mode)) {
    auto copied = copy_file(from, to);
    if (!copied && copied.error().is_errno(ENOENT) && ::access(from.c_str(), F_OK) != 0) return 0;
    if (!copied) return fail(std::move(copied).error());
    bytes = *copied;
  } else if (S_ISDIR(st.st_mode)) {
    if (::mkdir(to.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno(to);
    std::error_code error;
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(from, error)) names.push_back(entry.path().filename().string());
    if (error) return fail_errno(from, error.value());
    for (const std::string& name : names) {
      const std::string below = inside.empty() ? name : inside + "/" + name;
      PEN_TRY_ASSIGN(const auto more, copy_below(from + "/" + name, to + "/" + name, below, options));
      bytes += more;
    }
    if (::chmod(to.c_str(), st.st_mode & 07777) != 0) return fail_errno(to);
    PEN_TRY(keep_owner(to, st));
  }
  return bytes;
}

}  // namespace

Result<std::uint64_t> copy_tree(const std::string& from, const std::string& to, const CopyOptions& options) {
  return copy_below(from, to, {}, options);
}

Result<std::uint64_t> copy_file(const std::string& from, const std::string& to) {
  const Fd in(::open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!in) return fail_errno(from);
  struct stat st{};
  if (::fstat(in.get(), &st) != 0) return fail_errno(from);
  if (!S_ISREG(st.st_mode)) return fail_errno(from, EINVAL);
  const Fd out(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!out) return fail_errno(to);
  std::string piece(kPiece, '\0');
  off_t at = 0;
  while (at < st.st_size) {
    off_t data = ::lseek(in.get(), at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // a hole up to the end
    if (data < 0) data = at;                // the file system knows no holes
    if (::lseek(in.get(), data, SEEK_SET) < 0 || ::lseek(out.get(), data, SEEK_SET) < 0) return fail_errno(from);
    const ssize_t n = ::read(in.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(from);
    if (n == 0) break;
    PEN_TRY(write_all(out.get(), piece.data(), static_cast<std::size_t>(n), to));
    at = data + n;
  }
  if (::ftruncate(out.get(), std::max(at, st.st_size)) != 0) return fail_errno(to);
  if (::geteuid() == 0 && ::fchown(out.get(), st.st_uid, st.st_gid) != 0) return fail_errno(to);
  if (::fchmod(out.get(), st.st_mode & 07777) != 0) return fail_errno(to);
  const timespec times[2] = {st.st_atim, st.st_mtim};
  if (::futimens(out.get(), times) != 0) return fail_errno(to);
  return static_cast<std::uint64_t>(at);
}

Result<void> sync_tree(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> paths = {directory};
  for (const auto& entry : fs::recursive_directory_iterator(directory, error))
    if (!entry.is_symlink(error) && (entry.is_regular_file(error) || entry.is_directory(error)))
      paths.push_back(entry.path().string());
  if (error) return fail_errno(directory, error.value());
  for (const std::string& path : paths) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd || ::fsync(fd.get()) != 0) return fail_errno(path);
  }
  return {};
}

Result<void> give_tree(const std::string& directory, uid_t uid, gid_t gid) {
  if (::geteuid() != 0) return {};
  if (::lchown(directory.c_str(), uid, gid) != 0) return fail_errno(directory);
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(directory, error))
    if (::lchown(entry.path().c_str(), uid, gid) != 0) return fail_errno(entry.path().string());
  if (error) return fail_errno(directory, error.value());
  return {};
}

Result<void> write_file(const std::string& path, const std::string& text, mode_t mode) {
  const std::string fresh = path + ".new";
  const Fd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!fd) return fail_errno(fresh);
  PEN_TRY(write_all(fd.get(), text.data(), text.size(), fresh));
  if (::fsync(fd.get()) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) return fail_errno(fresh);
  const Fd parent(::open(fs::path(path).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent || ::fsync(parent.get()) != 0) return fail_errno(path);
  return {};
}

}  // namespace pen::tools
