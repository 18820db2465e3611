#pragma once
/// A disk for the spool that knows what a power cut would leave: for each sector every content since the last sync,
/// for each name whether it would still be there. For crash tests.
///
/// Use:     FaultDisk disk;                                             // must outlive the Spools that run on it
///          auto spool = Spool::open(disk.files(), 0, new_use);
///          disk.write(fd, "content", offset); disk.sync(fd);           // a receiver, with its lease's descriptor
///          FaultDisk after = disk.cut(FaultDisk::Cut::torn, random);
/// Model:   as in testing::FaultStorage: sectors are written whole or not at all, in any order; a kill keeps the page
///          cache. A file's length is durable with its sync; before, it may have either length. Names are as
///          sync_names() left them; later ones may be there or not. Descriptors are real, and the kernel knows which
///          processes have a file open: each file's page cache is a memfd, held by a path alone, which does not open
///          it.
/// Thread:  one.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/file_io.h"
#include "lib/base/random.h"
#include "lib/queue/queue_log/testing/fault_storage.h"
#include "lib/queue/spool/files.h"

namespace pen::spool {

class FaultDisk {
 public:
  using Cut = testing::FaultStorage::Cut;

  /// The view of one process.
  std::unique_ptr<Files> files() { return std::make_unique<View>(*this); }
  /// Called before each operation takes effect.
  std::function<void()> before_operation;
  /// The next sync of names fails with EIO.
  bool fail_names = false;
  /// The next write of a Spool writes nothing and fails with this errno; 0: it does not fail.
  int fail_write = 0;
  /// A file with more bytes than this gets ENOSPC.
  std::uint64_t largest = UINT64_MAX;
  /// The file system knows no leases.
  bool cannot_tell = false;
  /// The free space that the disk reports; files may still exceed it.
  std::uint64_t capacity = std::uint64_t{1} << 50U;
  std::uint64_t used() const {
    std::uint64_t sum = 0;
    for (const auto& [file, inode] : names_) sum += size(inodes_.at(inode).cache.get());
    return sum;
  }

  /// A receiver's write.
  void write(int fd, std::string_view bytes, std::uint64_t offset) {
    operate();
    File& file = of(fd);
    PEN_CHECK(write_all_at(fd, bytes, offset, "write").has_value());
    for (std::uint64_t n = offset / kSector; n * kSector < offset + bytes.size(); ++n)
      file.dirty[n].push_back(sector(fd, n));
  }
  void sync(int fd) {
    operate();
    File& file = of(fd);
    for (auto& [n, versions] : file.dirty) file.disk[n] = versions.back();
    file.dirty.clear();
    file.durable_size = size(fd);
  }
  /// A sync() that fails: the pages are clean now but were never written.
  void fail_sync(int fd) {
    operate();
    of(fd).dirty.clear();
  }
  std::size_t file_count() const { return names_.size(); }

  /// The disk that a restart after the event finds.
  FaultDisk cut(Cut how, Random& random) const {
    FaultDisk after;
    after.largest = largest;
    after.capacity = capacity;
    for (const auto& [inode, file] : inodes_) {
      // Names that were not synced may be there or not, old and new ones alike.
      FileNumber name = 0;
      const bool coin = how == Cut::kill || how == Cut::all || (how != Cut::none && random.chance(0.5));
      if (coin) {
        if (const auto now = name_of(names_, inode)) name = *now;
      } else if (const auto then = name_of(durable_names_, inode)) {
        name = *then;
      }
      if (name == 0 || after.names_.contains(name)) continue;
      File copy;
      copy.disk = file.disk;
      copy.durable_size = file.durable_size;
      std::uint64_t size_then = size(file.cache.get());
      if (how == Cut::kill) {
        copy.dirty = file.dirty;
      } else {
        if (how == Cut::none || (how != Cut::all && random.chance(0.3))) size_then = file.durable_size;
        if (how != Cut::none) {
          const double age = random.unit();
          for (const auto& [n, versions] : file.dirty) {
            std::size_t version = versions.size();
            if (how == Cut::torn) version = random.below(versions.size() + 1);
            if (how == Cut::random && random.chance(age)) version = 0;
            if (version > 0) copy.disk[n] = versions[version - 1];
          }
        }
        copy.durable_size = size_then;
      }
      const Fd cache(::memfd_create("spool", MFD_CLOEXEC));
      PEN_CHECK(cache && ::ftruncate(cache.get(), static_cast<off_t>(size_then)) == 0);
      for (const auto& [n, content] : copy.disk)
        if ((n + 1) * kSector <= size_then) put(cache.get(), n, content);
      for (const auto& [n, versions] : copy.dirty) put(cache.get(), n, versions.back());
      copy.cache = path_of(cache.get());
      const auto fresh = inode_of(copy.cache.get());
      after.inodes_.emplace(fresh, std::move(copy));
      after.names_[name] = after.durable_names_[name] = fresh;
    }
    return after;
  }

 private:
  static constexpr std::size_t kSector = 512;
  using Sector = std::array<char, kSector>;
  using Inode = std::uint64_t;
  struct File {
    Fd cache;  // O_PATH
    std::map<std::uint64_t, Sector> disk;
    std::map<std::uint64_t, std::vector<Sector>> dirty;  // every content since the last sync
    std::uint64_t durable_size = 0;
  };
  using Names = std::map<FileNumber, Inode>;

  class View final : public Files {
   public:
    explicit View(FaultDisk& disk) : disk_(disk) {}
    Result<std::vector<FileNumber>> list() override {
      std::vector<FileNumber> found;
      for (const auto& [file, inode] : disk_.names_) found.push_back(file);
      return found;
    }
    Result<Fd> create(FileNumber file) override {
      disk_.operate();
      if (disk_.names_.contains(file)) return fail(Error::from_errno(EEXIST, name(file)));
      Fd fd(::memfd_create("spool", MFD_CLOEXEC));
      PEN_CHECK(static_cast<bool>(fd));
      const Inode inode = inode_of(fd.get());
      disk_.inodes_[inode].cache = path_of(fd.get());
      disk_.names_[file] = inode;
      return reopen(inode, true);
    }
    Result<void> sync_names() override {
      disk_.operate();
      if (disk_.fail_names) {
        disk_.fail_names = false;
        return fail(Error::from_errno(EIO, "fsync"));
      }
      disk_.durable_names_ = disk_.names_;
      return {};
    }
    Result<Fd> open(FileNumber file, bool to_write) override {
      const auto it = disk_.names_.find(file);
      if (it == disk_.names_.end()) return fail(Error::from_errno(ENOENT, name(file)));
      return reopen(it->second, to_write);
    }
    Result<void> remove(FileNumber file) override {
      disk_.operate();
      if (disk_.names_.erase(file) == 0) return fail(Error::from_errno(ENOENT, name(file)));
      return {};
    }
    Result<std::uint64_t> size(int fd) override { return FaultDisk::size(fd); }
    Result<void> reserve(int fd, std::uint64_t size) override {
      disk_.operate();
      if (size > disk_.largest) return fail(Error::from_errno(ENOSPC, "reserve"));
      if (FaultDisk::size(fd) < size) PEN_CHECK(::ftruncate(fd, static_cast<off_t>(size)) == 0);
      return {};
    }
    Result<void> write(int fd, std::string_view bytes, std::uint64_t offset) override {
      if (const int why = std::exchange(disk_.fail_write, 0); why != 0) {
        disk_.operate();
        return fail(Error::from_errno(why, "write spool file"));
      }
      disk_.write(fd, bytes, offset);
      return {};
    }
    Result<std::string> read(int fd, std::size_t size, std::uint64_t offset) override {
      return read_at(fd, offset, size, "read");
    }
    Result<bool> only_here(int fd) override {
      if (disk_.cannot_tell) return fail(Error::from_errno(EINVAL, "lease"));
      if (::fcntl(fd, F_SETLEASE, F_WRLCK) != 0) {
        PEN_CHECK(errno == EAGAIN);
        return false;
      }
      PEN_CHECK(::fcntl(fd, F_SETLEASE, F_UNLCK) == 0);
      return true;
    }
    Result<void> clear(int fd, std::uint64_t from, std::uint64_t to) override {
      disk_.operate();
      disk_.zero(fd, from, to);
      return {};
    }
    Result<std::uint64_t> free_bytes() override { return disk_.capacity - disk_.used(); }
    std::string name(FileNumber file) const override { return fmt::format("body-{:08}", file); }

   private:
    Result<Fd> reopen(Inode inode, bool to_write) {
      Fd fd = opened(disk_.inodes_.at(inode).cache.get(), to_write ? O_RDWR : O_RDONLY);
      if (!fd) return fail_errno("open a file of the spool");
      return fd;
    }
    FaultDisk& disk_;
  };

  void operate() {
    if (before_operation) before_operation();
  }
  /// A description of its own, like that of open() by name.
  static Fd opened(int fd, int flags) {
    return Fd(::open(fmt::format("/proc/self/fd/{}", fd).c_str(), flags | O_CLOEXEC));
  }
  static Fd path_of(int fd) {
    Fd path = opened(fd, O_PATH);
    PEN_CHECK(static_cast<bool>(path));
    return path;
  }
  /// Only sectors that have held something.
  void zero(int fd, std::uint64_t from, std::uint64_t to) {
    File& file = of(fd);
    std::set<std::uint64_t> sectors;
    for (const auto& [n, content] : file.disk) sectors.insert(n);
    for (const auto& [n, versions] : file.dirty) sectors.insert(n);
    for (const std::uint64_t n : sectors) {
      if (n * kSector < from || n * kSector >= to) continue;
      file.dirty[n].push_back(Sector{});
      put(fd, n, Sector{});
    }
  }
  static Inode inode_of(int fd) {
    struct stat st{};
    PEN_CHECK(::fstat(fd, &st) == 0);
    return st.st_ino;
  }
  static std::uint64_t size(int fd) {
    struct stat st{};
    PEN_CHECK(::fstat(fd, &st) == 0);
    return static_cast<std::uint64_t>(st.st_size);
  }
  static std::optional<FileNumber> name_of(const Names& names, Inode inode) {
    for (const auto& [file, i] : names)
      if (i == inode) return file;
    return std::nullopt;
  }
  static Sector sector(int fd, std::uint64_t n) {
    Sector out{};
    PEN_CHECK(::pread(fd, out.data(), kSector, static_cast<off_t>(n * kSector)) >= 0);
    return out;
  }
  static void put(int fd, std::uint64_t n, const Sector& content) {
    PEN_CHECK(::pwrite(fd, content.data(), kSector, static_cast<off_t>(n * kSector)) == static_cast<ssize_t>(kSector));
  }
  File& of(int fd) { return inodes_.at(inode_of(fd)); }

  std::map<Inode, File> inodes_;
  Names names_;
  Names durable_names_;
};

}  // namespace pen::spool
