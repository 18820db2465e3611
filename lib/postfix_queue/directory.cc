#include "lib/postfix_queue/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <tuple>

#include "lib/base/text.h"

namespace pen::postfix_queue {
namespace {

// hash_queue_depth has 1 here; Postfix's code knows no more than this.
constexpr int kDeepest = 8;
constexpr std::size_t kLongestId = 100;

struct Close {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

bool may_be_id(std::string_view name) {
  return !name.empty() && name.size() <= kLongestId && std::ranges::all_of(name, ascii_alnum);
}

Result<Fd> open_directory(int at, const std::string& name) {
  Fd fd(::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return fail_errno(name);
  return fd;
}

using See = std::function<Result<void>(const std::string& path, const std::string& name, const struct stat& st)>;

/// Every regular file below; directories of one character are Postfix's hashing.
Result<void> walk(int at, const std::string& path, int depth, const See& see) {
  PEN_TRY_ASSIGN(Fd fd, open_directory(at, path));
  const std::unique_ptr<DIR, Close> dir(::fdopendir(fd.get()));
  if (!dir) return fail_errno(path);
  fd.release();
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) {
      if (errno != 0) return fail_errno(path);
      return {};
    }
    const std::string name = entry->d_name;
    if (!may_be_id(name)) continue;
    struct stat st{};
    if (::fstatat(::dirfd(dir.get()), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;
      return fail_errno(path + "/" + name);
    }
    const std::string below = path + "/" + name;
    if (S_ISDIR(st.st_mode) && name.size() == 1 && depth < kDeepest) PEN_TRY(walk(at, below, depth + 1, see));
    if (S_ISREG(st.st_mode)) PEN_TRY(see(below, name, st));
  }
}

Result<std::string> read_file(int at, const std::string& path) {
  const Fd fd(::openat(at, path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return fail_errno(path);
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return fail_errno(path);
  if (!S_ISREG(st.st_mode)) return fail(FileError::not_ours, path);
  if (static_cast<std::uint64_t>(st.st_size) > kMaxFile) return fail(FileError::too_large, path);
  std::string out(static_cast<std::size_t>(st.st_size), '\0');
  for (std::size_t have = 0; have < out.size();) {
    const ssize_t n = ::pread(fd.get(), out.data() + have, out.size() - have, static_cast<off_t>(have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(path);
    if (n == 0) return fail(FileError::cut_short, path + ": shorter than it was");
    have += static_cast<std::size_t>(n);
  }
  return out;
}

/// Postfix's master holds this lock for its life.
Result<Fd> lock_master(int at, const std::string& queue) {
  const std::string path = "pid/master.pid";
  Fd fd(::openat(at, path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd && errno == ENOENT) return Fd();  // it never ran here: a copy of a queue
  if (!fd) return fail_errno(queue + "/" + path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno == EWOULDBLOCK) return fail(DirectoryError::in_use, queue);
  return fail_errno("lock " + queue + "/" + path);
}

}  // namespace

std::string_view error_module(DirectoryError) { return "postfix queue"; }
std::string_view describe(DirectoryError e) {
  switch (e) {
    case DirectoryError::not_a_queue:
      return "no queue directory of Postfix: it has neither incoming nor deferred";
    case DirectoryError::in_use:
      return "Postfix runs with this queue: stop it first (postfix stop)";
    case DirectoryError::too_many:
      return "more files than can be taken at once";
  }
  return "?";
}

Result<QueueDirectory> QueueDirectory::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_errno(path);
  struct stat st{};
  const bool any = ::fstatat(fd.get(), "incoming", &st, 0) == 0 || ::fstatat(fd.get(), "deferred", &st, 0) == 0;
  if (!any) return fail(DirectoryError::not_a_queue, path);
  PEN_TRY_ASSIGN(Fd lock, lock_master(fd.get(), path));
  return QueueDirectory(path, std::move(fd), std::move(lock));
}

Result<std::vector<Found>> QueueDirectory::list() const {
  std::vector<Found> found;
  for (std::size_t i = 0; i < std::size(kQueueNames); ++i) {
    const auto queue = static_cast<Queue>(i);
    auto done = walk(directory_.get(), std::string(kQueueNames[i]), 0,
                     [&](const std::string& path, const std::string& name, const struct stat& st) -> Result<void> {
                       if (found.size() == kMost) return fail(DirectoryError::too_many, path_);
                       found.push_back({.queue = queue,
                                        .id = name,
                                        .path = path,
                                        .uid = st.st_uid,
                                        .size = static_cast<std::uint64_t>(st.st_size),
                                        .changed = WallTime(seconds(st.st_mtim.tv_sec)),
                                        .whole = (st.st_mode & S_IXUSR) != 0});
                       return {};
                     });
    if (!done && !done.error().is_errno(ENOENT)) return fail(std::move(done).error());
  }
  std::ranges::sort(found,
                    [](const Found& a, const Found& b) { return std::tie(a.queue, a.id) < std::tie(b.queue, b.id); });
  return found;
}

Result<std::string> QueueDirectory::load(const Found& found) const { return read_file(directory_.get(), found.path); }

std::vector<Reason> QueueDirectory::reasons(const Found& found) const {
  // Beside deferred/ as its files lie there; for a message of another queue where short ids go by default.
  const std::string tail = found.path.substr(found.path.find('/'));
  for (const auto& path : {"defer" + tail, "defer/" + found.id.substr(0, 1) + "/" + found.id})
    if (const auto text = read_file(directory_.get(), path)) return read_reasons(*text);
  return {};
}

Result<void> QueueDirectory::remove(const Found& found) const {
  if (::unlinkat(directory_.get(), found.path.c_str(), 0) != 0 && errno != ENOENT) return fail_errno(found.path);
  const auto slash = found.path.find('/');
  // What is said about a message that is gone misleads nobody: it may stay.
  for (const char* about : {"defer", "bounce", "trace"})
    (void)::unlinkat(directory_.get(), (about + found.path.substr(slash)).c_str(), 0);
  return {};
}

std::size_t QueueDirectory::count(const std::string& name) const {
  std::size_t files = 0;
  (void)walk(directory_.get(), name, 0, [&](const auto&, const auto&, const auto&) -> Result<void> {
    ++files;
    return {};
  });
  return files;
}

}  // namespace pen::postfix_queue
