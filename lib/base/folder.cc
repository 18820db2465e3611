#include "lib/base/folder.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace pen {
namespace {

struct Close {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

bool is_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

// At the begin of each function that takes a name.
#define PEN_NAME_OR_FAIL(name) \
  if (!is_name(name)) return fail_errno(path_of(name), EINVAL)

Result<Folder> Folder::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_errno(path);
  return Folder(path, std::move(fd));
}

Result<struct stat> Folder::status() const {
  struct stat st{};
  if (::fstat(fd(), &st) != 0) return fail_errno(path_);
  return st;
}

Result<Folder> Folder::folder(const std::string& name) const {
  PEN_NAME_OR_FAIL(name);
  Fd below(::openat(fd(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!below) return fail_errno(path_of(name));
  return Folder(path_of(name), std::move(below));
}

Result<Folder> Folder::folder_below(const std::string& names) const {
  Fd same(::openat(fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!same) return fail_errno(path_);
  Folder at(path_, std::move(same));
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = std::min(names.find('/', begin), names.size());
    PEN_TRY_ASSIGN(at, at.folder(names.substr(begin, end - begin)));
    begin = end + 1;
  }
  return at;
}

Result<Folder> Folder::make_folder(const std::string& name, mode_t mode) const {
  PEN_NAME_OR_FAIL(name);
  if (::mkdirat(fd(), name.c_str(), mode) != 0) return fail_errno(path_of(name));
  return folder(name);
}

Result<Fd> Folder::file(const std::string& name) const {
  PEN_NAME_OR_FAIL(name);
  // Without blocking: it may be a pipe. A device is not even opened, for that alone may do something.
  PEN_TRY_ASSIGN(const auto there, look(name));
  if (there && !S_ISREG(there->st_mode)) return fail_errno(path_of(name), S_ISDIR(there->st_mode) ? EISDIR : EACCES);
  Fd file(::openat(fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat st{};
  if (!file || ::fstat(file.get(), &st) != 0) return fail_errno(path_of(name));
  if (!S_ISREG(st.st_mode)) return fail_errno(path_of(name), EACCES);
  return file;
}

Result<Fd> Folder::make_file(const std::string& name, mode_t mode) const {
  PEN_NAME_OR_FAIL(name);
  Fd file(::openat(fd(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!file) return fail_errno(path_of(name));
  return file;
}

Result<std::optional<struct stat>> Folder::look(const std::string& name) const {
  PEN_NAME_OR_FAIL(name);
  struct stat st{};
  if (::fstatat(fd(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0) return st;
  if (errno == ENOENT) return std::nullopt;
  return fail_errno(path_of(name));
}

Result<std::string> Folder::link(const std::string& name) const {
  PEN_NAME_OR_FAIL(name);
  std::string target(PATH_MAX, '\0');
  const ssize_t size = ::readlinkat(fd(), name.c_str(), target.data(), target.size());
  if (size < 0) return fail_errno(path_of(name));
  target.resize(static_cast<std::size_t>(size));
  return target;
}

Result<void> Folder::make_link(const std::string& name, const std::string& target) const {
  PEN_NAME_OR_FAIL(name);
  if (::symlinkat(target.c_str(), fd(), name.c_str()) != 0) return fail_errno(path_of(name));
  return {};
}

Result<std::vector<std::string>> Folder::names() const {
  // An open directory has one place for all its readers: each list has an opening of its own.
  const int own = ::openat(fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, Close> dir(own < 0 ? nullptr : ::fdopendir(own));
  if (!dir) {
    const int why = errno;
    if (own >= 0) ::close(own);
    return fail_errno(path_, why);
  }
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) break;
    if (is_name(entry->d_name)) names.emplace_back(entry->d_name);
  }
  if (errno != 0) return fail_errno(path_);
  std::ranges::sort(names);
  return names;
}

Result<void> Folder::rename(const std::string& from, const Folder& where, const std::string& to) const {
  PEN_NAME_OR_FAIL(from);
  PEN_NAME_OR_FAIL(to);
  if (::renameat(fd(), from.c_str(), where.fd(), to.c_str()) != 0) return fail_errno(path_of(from));
  return {};
}

Result<void> Folder::remove(const std::string& name) const {
  PEN_NAME_OR_FAIL(name);
  if (::unlinkat(fd(), name.c_str(), 0) != 0 && errno != ENOENT) return fail_errno(path_of(name));
  return {};
}

Result<void> Folder::remove_all(const std::string& name) const {
  PEN_TRY_ASSIGN(const auto there, look(name));
  if (!there) return {};
  if (!S_ISDIR(there->st_mode)) return remove(name);
  PEN_TRY_ASSIGN(const Folder below, folder(name));
  PEN_TRY_ASSIGN(const auto names, below.names());
  for (const std::string& each : names) PEN_TRY(below.remove_all(each));
  if (::unlinkat(fd(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) return fail_errno(path_of(name));
  return {};
}

Result<void> Folder::sync() const {
  if (::fsync(fd()) != 0) return fail_errno(path_);
  return {};
}

#undef PEN_NAME_OR_FAIL

}  // namespace pen
