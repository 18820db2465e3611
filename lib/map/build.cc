#include "lib/map/build.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "lib/base/fd.h"
#include "lib/base/idn/fold.h"
#include "lib/base/text.h"

namespace pen::map {
namespace {

Result<void> sync(const Fd& fd, const std::string& path) {
  if (::fsync(fd.get()) != 0) return fail(MapError::unreadable, "sync " + path, errno);
  return {};
}

}  // namespace

Result<std::vector<std::string>> merge(Content& content, const std::vector<TableEntry>& entries,
                                       std::string_view source, std::size_t max_key, const BuildOptions& options) {
  std::vector<std::string> warnings;
  std::size_t done = 0;
  for (const auto& e : entries) {
    tell(options.progress, ++done, 2 * entries.size());
    std::string key = options.fold_keys ? idn::fold(e.key) : e.key;
    const std::string where = std::string(source) + ", line " + std::to_string(e.line);
    if (key.empty() || key.size() > max_key) return fail(MapError::too_large, where + ": key");
    if (e.value.size() > kMaxValue) return fail(MapError::too_large, where + ": value");
    if (key.find('\0') != std::string::npos || e.value.find('\0') != std::string::npos) {
      return fail(MapError::syntax, where + ": NUL byte");
    }
    const auto [place, inserted] = content.try_emplace(std::move(key), e.value);
    if (inserted) continue;
    if (options.duplicates == BuildOptions::Duplicates::replace) {
      place->second = e.value;
    } else if (options.duplicates == BuildOptions::Duplicates::warn) {
      warnings.push_back(duplicate_note(source, e));
    }
  }
  return warnings;
}

Result<void> replace_file(const std::string& path, unsigned mode,
                          const std::function<Result<void>(const std::string& fresh)>& write) {
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string name = path.substr(slash + 1), fresh = name + ".new." + std::to_string(::getpid());
  const Fd directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return fail(MapError::unreadable, "open " + folder, errno);
  ::unlinkat(directory.get(), fresh.c_str(), 0);
  const Fd file(::openat(directory.get(), fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return fail(MapError::unreadable, "create " + path + ".new." + std::to_string(::getpid()), errno);
  // Not by its name, which somebody else may have given to another file by then, where the directory is theirs.
  Result<void> done = write("/proc/self/fd/" + std::to_string(file.get()));
  if (done) done = sync(file, path);
  if (done && ::fchmod(file.get(), mode) != 0) done = fail(MapError::unreadable, "chmod " + path, errno);
  if (done && ::renameat(directory.get(), fresh.c_str(), directory.get(), name.c_str()) != 0)
    done = fail(MapError::unreadable, "rename to " + path, errno);
  if (!done) {
    ::unlinkat(directory.get(), fresh.c_str(), 0);
    return done;
  }
  return sync(directory, folder);
}

Result<Content> begin_content(const BuildOptions& options, const std::function<Result<Content>()>& read) {
  if (!options.start_from_old) return Content{};
  auto old = read();
  if (!old && old.error().is_errno(ENOENT)) return Content{};
  return old;
}

Result<std::size_t> remove_keys(const std::string& path, const std::vector<std::string>& keys, bool fold_keys,
                                const std::function<Result<Content>()>& read,
                                const std::function<Result<void>(const Content& content, unsigned mode)>& write) {
  struct stat s{};
  if (::stat(path.c_str(), &s) != 0) return fail(MapError::unreadable, "open " + path, errno);
  PEN_TRY_ASSIGN(Content content, read());
  std::size_t removed = 0;
  for (const auto& key : keys) {
    if (!fold_keys) {
      removed += content.erase(key);
    } else if (const auto erased = content.erase(idn::fold(key)); erased != 0) {
      removed += erased;
    } else {
      removed += content.erase(to_lower(key));  // of a file as find_folded() knows it
    }
  }
  if (removed != 0) PEN_TRY(write(content, s.st_mode & 07777));
  return removed;
}

}  // namespace pen::map
