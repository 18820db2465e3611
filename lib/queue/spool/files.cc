#include "lib/queue/spool/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lib/base/file_io.h"
#include "lib/base/text.h"

namespace pen::spool {
namespace {

constexpr std::string_view kPrefix = "body-";

std::string name_of(FileNumber file) { return fmt::format("{}{:08}", kPrefix, file); }

class Directory final : public Files {
 public:
  Directory(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  Result<std::vector<FileNumber>> list() override {
    DIR* const listing = ::opendir(path_.c_str());
    if (listing == nullptr) return fail_errno("opendir " + path_);
    std::vector<FileNumber> found;
    errno = 0;
    while (const dirent* entry = ::readdir(listing)) {
      if (const auto number = number_of(entry->d_name)) found.push_back(*number);
      errno = 0;
    }
    const int why = errno;
    ::closedir(listing);
    if (why != 0) return fail_errno("read " + path_, why);
    return found;
  }

  Result<Fd> create(FileNumber file) override {
    Fd fd(::openat(fd_.get(), name_of(file).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return fail_errno("create " + name(file));
    return fd;
  }
  Result<void> sync_names() override {
    if (::fsync(fd_.get()) != 0) return fail_errno("fsync " + path_);
    return {};
  }
  Result<Fd> open(FileNumber file, bool to_write) override {
    Fd fd(::openat(fd_.get(), name_of(file).c_str(), (to_write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return fail_errno("open " + name(file));
    if (to_write) {
      struct stat st{};
      if (::fstat(fd.get(), &st) != 0) return fail_errno("stat " + name(file));
      if (!S_ISREG(st.st_mode) || st.st_nlink > 1) return fail_errno("open " + name(file), EMLINK);
    }
    return fd;
  }
  Result<void> remove(FileNumber file) override {
    if (::unlinkat(fd_.get(), name_of(file).c_str(), 0) != 0) return fail_errno("remove " + name(file));
    return {};
  }
  Result<std::uint64_t> size(int fd) override {
    struct stat st{};
    if (::fstat(fd, &st) != 0) return fail_errno("stat a file in " + path_);
    return static_cast<std::uint64_t>(st.st_size);
  }
  Result<void> reserve(int fd, std::uint64_t size) override {
    if (const int error = ::posix_fallocate(fd, 0, static_cast<off_t>(size)); error != 0)
      return fail_errno("reserve space in " + path_, error);
    return {};
  }
  Result<void> write(int fd, std::string_view bytes, std::uint64_t offset) override {
    return write_all_at(fd, bytes, offset, "write a file in " + path_);
  }
  Result<std::string> read(int fd, std::size_t size, std::uint64_t offset) override {
    return read_at(fd, offset, size, "read a file in " + path_);
  }
  Result<bool> only_here(int fd) override {
    // The kernel grants a lease to write only where nobody else has the file open: fcntl(2), F_SETLEASE.
    if (::fcntl(fd, F_SETLEASE, F_WRLCK) != 0) {
      if (errno == EAGAIN) return false;
      return fail_errno("lease of a file in " + path_);
    }
    if (::fcntl(fd, F_SETLEASE, F_UNLCK) != 0) return fail_errno("end of the lease of a file in " + path_);
    return true;
  }
  Result<void> clear(int fd, std::uint64_t from, std::uint64_t to) override {
    const auto at = static_cast<off_t>(from), size = static_cast<off_t>(to - from);
    if (::fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, at, size) == 0) return {};
    if (errno != EOPNOTSUPP && errno != ENOSYS) return fail_errno("clear a file in " + path_);
    if (::ftruncate(fd, at) != 0) return fail_errno("clear a file in " + path_);
    return reserve(fd, to);
  }
  Result<std::uint64_t> free_bytes() override {
    struct statvfs st{};
    if (::fstatvfs(fd_.get(), &st) != 0) return fail_errno("statvfs " + path_);
    return std::uint64_t{st.f_bavail} * st.f_frsize;
  }
  std::string name(FileNumber file) const override { return path_ + "/" + name_of(file); }

 private:
  std::string path_;
  Fd fd_;
};

}  // namespace

std::optional<FileNumber> number_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto number = parse_unsigned(name.substr(kPrefix.size()));
  if (!number || *number == 0 || *number > UINT32_MAX) return std::nullopt;
  const auto file = static_cast<FileNumber>(*number);
  if (name_of(file) != name) return std::nullopt;
  return file;
}

Result<std::unique_ptr<Files>> open_directory(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno("mkdir " + directory);
  Fd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_errno("open " + directory);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return fail_errno(directory + " is in use by another process");
  // A process that opens a file in the moment of a lease (only_here()) waits for its end, and this signal tells us.
  ::signal(SIGIO, SIG_IGN);
  return std::make_unique<Directory>(directory, std::move(fd));
}

}  // namespace pen::spool
