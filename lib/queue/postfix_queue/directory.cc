#include "lib/queue/postfix_queue/directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <tuple>

#include "lib/base/file_io.h"
#include "lib/base/text.h"

namespace pen::postfix_queue {
namespace {

// hash_queue_depth has 1 here; Postfix's code knows no more than this.
constexpr int kDeepest = 8;
constexpr std::size_t kLongestId = 100;

bool may_be_id(std::string_view name) {
  return !name.empty() && name.size() <= kLongestId && std::ranges::all_of(name, ascii_alnum);
}

using See = std::function<Result<void>(const std::string& path, const std::string& name, const struct stat& st)>;

/// Every regular file below; directories of one character are Postfix's hashing. `path`: of the folder, below the queue
/// directory.
Result<void> walk(const Folder& folder, const std::string& path, int depth, const See& see) {
  PEN_TRY_ASSIGN(const auto names, folder.names());
  for (const std::string& name : names) {
    if (!may_be_id(name)) continue;
    PEN_TRY_ASSIGN(const auto st, folder.look(name));
    if (!st) continue;
    const std::string below = path + "/" + name;
    if (S_ISDIR(st->st_mode) && name.size() == 1 && depth < kDeepest) {
      PEN_TRY_ASSIGN(const Folder deeper, folder.folder(name));
      PEN_TRY(walk(deeper, below, depth + 1, see));
    }
    if (S_ISREG(st->st_mode)) PEN_TRY(see(below, name, *st));
  }
  return {};
}

/// The folder of a file of the queue, and its name in there.
struct Place {
  Folder folder;
  std::string name;
};
Result<Place> place_of(const Folder& queue, const std::string& path) {
  const auto slash = path.rfind('/');
  PEN_TRY_ASSIGN(Folder folder, queue.folder_below(path.substr(0, slash)));
  return Place{std::move(folder), path.substr(slash + 1)};
}

Result<std::string> read_file(const Folder& queue, const std::string& path) {
  PEN_TRY_ASSIGN(const Place place, place_of(queue, path));
  PEN_TRY_ASSIGN(const auto there, place.folder.look(place.name));
  if (there && !S_ISREG(there->st_mode)) return fail(FileError::not_ours, path);
  PEN_TRY_ASSIGN(const Fd fd, place.folder.file(place.name));
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return fail_errno(path);
  if (static_cast<std::uint64_t>(st.st_size) > kMaxFile) return fail(FileError::too_large, path);
  const auto size = static_cast<std::size_t>(st.st_size);
  PEN_TRY_ASSIGN(std::string out, read_at(fd.get(), 0, size, path));
  if (out.size() < size) return fail(FileError::cut_short, path + ": shorter than it was");
  return out;
}

/// Postfix's master holds this lock for its life.
Result<Fd> lock_master(const Folder& queue) {
  const std::string path = "pid/master.pid";
  auto place = place_of(queue, path);
  auto fd = place ? place->folder.file(place->name) : fail(Error(place.error()));
  if (!fd && fd.error().is_errno(ENOENT)) return Fd();  // it never ran here: a copy of a queue
  if (!fd) return fd;
  if (::flock(fd->get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno == EWOULDBLOCK) return fail(DirectoryError::in_use, queue.path());
  return fail_errno("lock " + queue.path_of(path));
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
  PEN_TRY_ASSIGN(Folder folder, Folder::open(path));
  PEN_TRY_ASSIGN(const auto incoming, folder.look("incoming"));
  PEN_TRY_ASSIGN(const auto deferred, folder.look("deferred"));
  if (!incoming && !deferred) return fail(DirectoryError::not_a_queue, path);
  PEN_TRY_ASSIGN(Fd lock, lock_master(folder));
  return QueueDirectory(std::move(folder), std::move(lock));
}

Result<std::vector<Found>> QueueDirectory::list() const {
  std::vector<Found> found;
  for (std::size_t i = 0; i < std::size(kQueueNames); ++i) {
    const auto queue = static_cast<Queue>(i);
    const std::string name(kQueueNames[i]);
    auto folder = folder_.folder(name);
    if (!folder && folder.error().is_errno(ENOENT)) continue;
    if (!folder) return fail(std::move(folder).error());
    auto done = walk(*folder, name, 0,
                     [&](const std::string& path, const std::string& id, const struct stat& st) -> Result<void> {
                       if (found.size() == kMost) return fail(DirectoryError::too_many, folder_.path());
                       found.push_back({.queue = queue,
                                        .id = id,
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

Result<std::string> QueueDirectory::load(const Found& found) const { return read_file(folder_, found.path); }

std::vector<Reason> QueueDirectory::reasons(const Found& found) const {
  // Beside deferred/ as its files lie there; for a message of another queue where short ids go by default.
  const std::string tail = found.path.substr(found.path.find('/'));
  for (const auto& path : {"defer" + tail, "defer/" + found.id.substr(0, 1) + "/" + found.id})
    if (const auto text = read_file(folder_, path)) return read_reasons(*text);
  return {};
}

Result<void> QueueDirectory::remove(const Found& found) const {
  const auto remove_file = [this](const std::string& path) -> Result<void> {
    PEN_TRY_ASSIGN(const Place place, place_of(folder_, path));
    return place.folder.remove(place.name);
  };
  if (auto removed = remove_file(found.path); !removed && !removed.error().is_errno(ENOENT)) return removed;
  const auto slash = found.path.find('/');
  // What is said about a message that is gone misleads nobody: it may stay.
  for (const char* about : {"defer", "bounce", "trace"}) (void)remove_file(about + found.path.substr(slash));
  return {};
}

std::size_t QueueDirectory::count(const std::string& name) const {
  std::size_t files = 0;
  if (const auto folder = folder_.folder(name))
    (void)walk(*folder, name, 0, [&](const auto&, const auto&, const auto&) -> Result<void> {
      ++files;
      return {};
    });
  return files;
}

}  // namespace pen::postfix_queue
