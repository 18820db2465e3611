#include "lib/suite/service/roots_file.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <deque>

#include "lib/base/text.h"

namespace pen::service {
namespace {

using Names = std::deque<std::string>;

void put_before(Names& names, std::string_view path) {
  const auto more = split(path, "/");
  names.insert(names.begin(), more.begin(), more.end());
}

Result<std::string> target_of(const Fd& link) {
  std::array<char, PATH_MAX> text{};
  const ssize_t n = ::readlinkat(link.get(), "", text.data(), text.size());
  if (n < 0) return fail_errno("readlink");
  if (static_cast<std::size_t>(n) == text.size()) return fail_errno("readlink", ENAMETOOLONG);
  return std::string(text.data(), static_cast<std::size_t>(n));
}

}  // namespace

Result<std::optional<Fd>> open_roots_file(const std::string& path) {
  Names names;
  put_before(names, path);
  Fd at(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (int links = 0; at;) {
    while (!names.empty() && (names.front().empty() || names.front() == ".")) names.pop_front();
    if (names.empty()) return fail_errno(path, EACCES);  // a directory
    const std::string name = names.front();
    names.pop_front();
    struct stat directory{}, st{};
    if (::fstat(at.get(), &directory) != 0) return fail_errno(path);
    const bool shared = (directory.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    if (directory.st_uid != 0 || (shared && (directory.st_mode & S_ISVTX) == 0)) return std::nullopt;
    Fd next(::openat(at.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!next || ::fstat(next.get(), &st) != 0) return fail_errno(path);
    if (shared && name != ".." && st.st_uid != 0) return std::nullopt;
    if (S_ISLNK(st.st_mode)) {
      if (++links > kMostLinks) return fail_errno(path, ELOOP);
      PEN_TRY_ASSIGN(const std::string target, target_of(next));
      put_before(names, target);
      if (target.starts_with('/')) at = Fd(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    } else if (S_ISDIR(st.st_mode)) {
      at = std::move(next);
    } else {
      if (!S_ISREG(st.st_mode) || !names.empty()) return fail_errno(path, names.empty() ? EACCES : ENOTDIR);
      // Nobody else can have changed the name meanwhile.
      Fd file(::openat(at.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
      if (!file) return fail_errno(path);
      return file;
    }
  }
  return fail_errno(path);
}

}  // namespace pen::service
