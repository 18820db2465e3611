#include "lib/queue/queue_log/posix_storage.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

#include "lib/base/file_lock.h"
#include "lib/base/text.h"

namespace pen::queue_log {
namespace {

constexpr std::string_view kPositionsName = "positions";
constexpr std::string_view kSegmentPrefix = "segment-";
constexpr std::string_view kAsidePrefix = "damaged-";
// Three files for each thread that writes: what a log that rolls needs.
constexpr std::size_t kSpare = 32;

std::string name_of(Slot slot) {
  return slot == kPositionsSlot ? std::string(kPositionsName) : fmt::format("{}{:08}", kSegmentPrefix, slot);
}
std::optional<Slot> slot_of(std::string_view name) {
  if (name == kPositionsName) return kPositionsSlot;
  if (!name.starts_with(kSegmentPrefix)) return std::nullopt;
  const auto number = parse_unsigned(name.substr(kSegmentPrefix.size()));
  if (!number || *number == 0 || *number > UINT32_MAX) return std::nullopt;
  const auto slot = static_cast<Slot>(*number);
  return name_of(slot) == name ? std::optional(slot) : std::nullopt;
}

/// A file that is open, once for each thread that writes to it: the kernel tells of a lost write once per
/// description, and only those that were open when it was lost. So a thread syncs by the description it had before it
/// wrote, and a result that another thread's sync got does not hide the fate of its own bytes.
struct File {
  explicit File(std::atomic<std::size_t>& count) : open(count) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    for (const auto& [owner, fd] : all) ::close(fd);
    open -= all.size();
  }
  void add(int fd) {
    all.emplace_back(std::this_thread::get_id(), fd);
    ++open;
  }
  /// To read by: any will do.
  int fd() const { return first; }

  int first = -1;
  std::vector<std::pair<std::thread::id, int>> all;
  bool failed = false;  // a sync of it did: from then on all do
  std::atomic<std::size_t>& open;
};
using Shared = std::shared_ptr<File>;

}  // namespace

struct PosixStorage::Impl {
  std::string directory;
  int directory_fd = -1;
  bool read_only = false;
  std::atomic<std::size_t> descriptors = 0;
  std::mutex mutex;  // guards what follows, and what is in the files
  struct Entry {
    Shared file;
    std::list<Slot>::iterator place;
  };
  std::map<Slot, Entry> open;
  std::list<Slot> recent;  // most recently used first
  // Kept back for the next segments, when others have taken all that the process may have.
  mutable std::vector<int> spare;

  ~Impl() {
    for (const int fd : spare) ::close(fd);
    if (directory_fd >= 0) ::close(directory_fd);
  }
  std::string path(Slot slot) const { return directory + "/" + name_of(slot); }

  /// With the lock held.
  void keep_spare() const {
    while (!read_only && spare.size() < kSpare) {
      const int fd = ::fcntl(directory_fd, F_DUPFD_CLOEXEC, 0);
      if (fd < 0) return;  // with a later file
      spare.push_back(fd);
    }
  }
  /// openat(), with a spare descriptor if no other is left. With the lock held.
  int open_at(const std::string& name, int flags) const {
    for (;;) {
      const int fd = ::openat(directory_fd, name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600);
      if (fd >= 0) keep_spare();
      if (fd >= 0 || (errno != EMFILE && errno != ENFILE) || spare.empty()) return fd;
      ::close(spare.back());
      spare.pop_back();
    }
  }
  /// With the lock held.
  Result<int> open_file(Slot slot) const {
    const int fd = open_at(name_of(slot), read_only ? O_RDONLY : O_RDWR);
    if (fd < 0) return fail_errno("open " + path(slot));
    return fd;
  }
  /// With the lock held.
  Result<Shared> get_locked(Slot slot) {
    if (const auto it = open.find(slot); it != open.end()) {
      recent.splice(recent.begin(), recent, it->second.place);
      return it->second.file;
    }
    PEN_TRY_ASSIGN(const int fd, open_file(slot));
    return keep(slot, fd);
  }
  /// To read.
  Result<Shared> get(Slot slot) {
    const std::lock_guard lock(mutex);
    return get_locked(slot);
  }
  struct Mine {
    Shared file;
    int fd;
  };
  /// To write or to sync: the calling thread's own description.
  Result<Mine> mine(Slot slot) {
    const std::lock_guard lock(mutex);
    PEN_TRY_ASSIGN(Shared file, get_locked(slot));
    if (file->failed) return fail_errno("an earlier sync failed of " + path(slot), EIO);
    for (const auto& [owner, fd] : file->all)
      if (owner == std::this_thread::get_id()) return Mine{std::move(file), fd};
    PEN_TRY_ASSIGN(const int fd, open_file(slot));
    file->add(fd);
    drop_old(slot);
    return Mine{std::move(file), fd};
  }
  /// With the lock held.
  void forget(Slot slot) {
    const auto old = open.find(slot);
    if (old == open.end()) return;
    recent.erase(old->second.place);
    open.erase(old);
  }
  /// With the lock held: files used longest ago are closed while there are too many descriptors.
  void drop_old(Slot but) {
    while (descriptors > kMaxOpen && !recent.empty() && recent.back() != but) forget(recent.back());
  }
  /// With the lock held.
  Shared keep(Slot slot, int fd) {
    auto file = std::make_shared<File>(descriptors);
    file->first = fd;
    file->add(fd);
    recent.push_front(slot);
    open[slot] = {file, recent.begin()};
    drop_old(slot);
    return file;
  }
};

PosixStorage::PosixStorage(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PosixStorage::~PosixStorage() = default;

Result<std::unique_ptr<PosixStorage>> PosixStorage::open(const std::string& directory, seconds patience) {
  if (::mkdir(directory.c_str(), 0700) == 0) {
    const auto slash = directory.find_last_of('/');
    const std::string parent = slash == std::string::npos ? "." : directory.substr(0, slash + 1);
    const int fd = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail_errno("open " + parent);
    const int synced = ::fsync(fd);
    const int why = errno;
    ::close(fd);
    if (synced != 0) return fail_errno("fsync " + parent, why);
  } else if (errno != EEXIST) {
    return fail_errno("mkdir " + directory);
  }
  PEN_TRY_ASSIGN(auto storage, open_to_read(directory));
  storage->impl_->read_only = false;
  storage->impl_->keep_spare();
  if (auto locked = lock_file(storage->impl_->directory_fd, patience); !locked) {
    if (locked.error().is_errno(EWOULDBLOCK))
      return fail_errno(directory + " is in use by another process", EWOULDBLOCK);
    return fail(std::move(locked).error().within(directory));
  }
  return storage;
}

Result<std::unique_ptr<PosixStorage>> PosixStorage::open_to_read(const std::string& directory) {
  auto impl = std::make_unique<Impl>();
  impl->directory = directory;
  impl->read_only = true;
  impl->directory_fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (impl->directory_fd < 0) return fail_errno("open " + directory);
  return std::unique_ptr<PosixStorage>(new PosixStorage(std::move(impl)));
}

Result<std::vector<PosixStorage::SlotInfo>> PosixStorage::list() {
  DIR* const dir = ::opendir(impl_->directory.c_str());
  if (dir == nullptr) return fail_errno("opendir " + impl_->directory);
  std::vector<SlotInfo> slots;
  errno = 0;
  while (const dirent* entry = ::readdir(dir)) {
    if (const auto slot = slot_of(entry->d_name)) {
      struct stat st{};
      if (::fstatat(::dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) break;
      slots.push_back({*slot, static_cast<std::uint64_t>(st.st_size), S_ISREG(st.st_mode) != 0});
    }
    errno = 0;
  }
  const int why = errno;
  ::closedir(dir);
  if (why != 0) return fail_errno("read " + impl_->directory, why);
  return slots;
}

Result<void> PosixStorage::allocate(Slot slot, std::uint64_t size) {
  Impl& d = *impl_;
  const std::string path = d.path(slot);
  if (d.read_only) return fail_errno(path, EROFS);
  const int fd = [&] {
    const std::lock_guard lock(d.mutex);
    return d.open_at(name_of(slot), O_RDWR | O_CREAT);
  }();
  if (fd < 0) return fail_errno("create " + path);
  int error = ::posix_fallocate(fd, 0, static_cast<off_t>(size));
  std::string_view what = "reserve space for ";
  if (error == 0 && ::fsync(fd) != 0) {
    error = errno;
    what = "fsync ";
  }
  if (error == 0 && ::fsync(d.directory_fd) != 0) {
    error = errno;
    what = "fsync the directory of ";
  }
  if (error != 0) {
    // Gives back the blocks that were had; the answer is the first error.
    ::unlinkat(d.directory_fd, name_of(slot).c_str(), 0);
    ::close(fd);
    return fail_errno(std::string(what) + path, error);
  }
  const std::lock_guard lock(d.mutex);
  d.forget(slot);
  d.keep(slot, fd);
  return {};
}

Result<void> PosixStorage::set_aside(Slot slot) {
  Impl& d = *impl_;
  if (d.read_only) return fail_errno(d.path(slot), EROFS);
  const std::string name = name_of(slot);
  const std::string first = std::string(kAsidePrefix) + name;
  std::string aside = first;
  for (int n = 1; ::faccessat(d.directory_fd, aside.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0; ++n)
    aside = fmt::format("{}.{}", first, n);
  if (::renameat(d.directory_fd, name.c_str(), d.directory_fd, aside.c_str()) != 0)
    return fail_errno("rename " + d.path(slot) + " to " + aside);
  if (::fsync(d.directory_fd) != 0) return fail_errno("fsync " + d.directory);
  const std::lock_guard lock(d.mutex);
  d.forget(slot);
  return {};
}

Result<void> PosixStorage::write(Slot slot, std::uint64_t offset, Bytes bytes) {
  if (impl_->read_only) return fail_errno(impl_->path(slot), EROFS);
  PEN_TRY_ASSIGN(const Impl::Mine mine, impl_->mine(slot));
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(mine.fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail_errno("write " + impl_->path(slot), n == 0 ? EIO : errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

Result<void> PosixStorage::sync(Slot slot) {
  if (impl_->read_only) return fail_errno(impl_->path(slot), EROFS);
  PEN_TRY_ASSIGN(const Impl::Mine mine, impl_->mine(slot));
  // Sizes and blocks were settled by allocate(), so data is all there is to sync.
  const int error = ::fdatasync(mine.fd) == 0 ? 0 : errno;
  const std::lock_guard lock(impl_->mutex);
  if (error != 0) mine.file->failed = true;
  if (error != 0) return fail_errno("fdatasync " + impl_->path(slot), error);
  if (mine.file->failed) return fail_errno("a sync beside this one failed of " + impl_->path(slot), EIO);
  return {};
}

Result<void> PosixStorage::read(Slot slot, std::uint64_t offset, MutableBytes into) {
  PEN_TRY_ASSIGN(const Shared file, impl_->get(slot));
  while (!into.empty()) {
    const ssize_t n = ::pread(file->fd(), into.data(), into.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail_errno("read " + impl_->path(slot), n == 0 ? EIO : errno);
    into = into.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

void PosixStorage::will_read(Slot slot, std::uint64_t offset, std::uint64_t size) {
  if (const auto file = impl_->get(slot))
    std::ignore =
        ::posix_fadvise((*file)->fd(), static_cast<off_t>(offset), static_cast<off_t>(size), POSIX_FADV_WILLNEED);
}

Result<void> PosixStorage::drop_cache(Slot slot) {
  PEN_TRY_ASSIGN(const Shared file, impl_->get(slot));
  if (const int error = ::posix_fadvise(file->fd(), 0, 0, POSIX_FADV_DONTNEED); error != 0)
    return fail_errno("fadvise " + impl_->path(slot), error);
  return {};
}

}  // namespace pen::queue_log
