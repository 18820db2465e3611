#include "lib/map/build.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "lib/base/text.h"
#include "lib/idn/fold.h"

namespace pen::map {
namespace {

Result<void> sync_path(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) return fail(MapError::unreadable, "open " + path, errno);
  const int code = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  if (code != 0) return fail(MapError::unreadable, "sync " + path, error);
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
      warnings.push_back(where + ": duplicate entry: \"" + printable(e.key, 200) + "\"");
    }
  }
  return warnings;
}

Result<void> replace_file(const std::string& path, unsigned mode,
                          const std::function<Result<void>(const std::string& fresh)>& write) {
  const std::string fresh = path + ".new." + std::to_string(::getpid());
  ::unlink(fresh.c_str());
  Result<void> done = write(fresh);
  if (done) done = sync_path(fresh, O_RDONLY);
  if (done && ::chmod(fresh.c_str(), mode) != 0) done = fail(MapError::unreadable, "chmod " + fresh, errno);
  if (done && ::rename(fresh.c_str(), path.c_str()) != 0) done = fail(MapError::unreadable, "rename " + path, errno);
  if (!done) {
    ::unlink(fresh.c_str());
    return done;
  }
  const auto slash = path.rfind('/');
  return sync_path(slash == std::string::npos ? "." : path.substr(0, slash + 1), O_RDONLY | O_DIRECTORY);
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
