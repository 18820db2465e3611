#include "penevents/rotating_file.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <vector>

#include "lib/base/file_io.h"

namespace pen::penevents {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kMode = 0640;
constexpr seconds kRenameAgain{60};
constexpr off_t kLongestLine = 1 << 20;  // of what is looked through for the end of the last whole one

bool exists(const std::string& path) {
  struct stat st{};
  return ::lstat(path.c_str(), &st) == 0;
}

/// When the file was made, as far as the file system knows.
WallTime birth_of(int fd, const struct stat& st) {
  struct statx more{};
  const bool known = ::statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &more) == 0 && (more.stx_mask & STATX_BTIME) != 0;
  return WallTime(seconds(known ? more.stx_btime.tv_sec : st.st_mtime));
}

Result<void> compress(const std::string& from) {
  const std::string to = from + ".gz", beside = to + ".tmp";
  if (!exists(to)) {
    const Fd in(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!in) return fail_errno(from);
    Fd out(::open(beside.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kMode));
    if (!out) return fail_errno(beside);
    const int copy = ::fcntl(out.get(), F_DUPFD_CLOEXEC, 0);
    gzFile zip = copy < 0 ? nullptr : ::gzdopen(copy, "wb6");
    if (zip == nullptr) {
      if (copy >= 0) ::close(copy);
      return fail_errno(beside);
    }
    auto buffer = std::make_unique<std::array<char, 65536>>();
    for (;;) {
      const ssize_t n = ::read(in.get(), buffer->data(), buffer->size());
      const bool written = n > 0 && ::gzwrite(zip, buffer->data(), static_cast<unsigned>(n)) == static_cast<int>(n);
      if (n > 0 && written) continue;
      if (n == 0) break;
      const int why = errno;
      ::gzclose(zip);
      return fail_errno(beside, why);
    }
    if (::gzclose(zip) != Z_OK || ::fsync(out.get()) != 0) return fail_errno(beside);
    if (::rename(beside.c_str(), to.c_str()) != 0) return fail_errno(to);
  }
  if (::unlink(from.c_str()) != 0) return fail_errno(from);
  return {};
}

/// What follows the path in the name of a renamed file: ".20261127-012024", perhaps "-01".
bool is_stamp(std::string_view s) {
  if (s.size() < 16 || s[0] != '.' || s[9] != '-') return false;
  return std::ranges::all_of(s.substr(1), [](char c) { return (c >= '0' && c <= '9') || c == '-'; });
}

}  // namespace

Result<RotatingFile> RotatingFile::open(RotatingOptions options, WallTime now) {
  RotatingFile file(std::move(options));
  PEN_TRY(file.begin(now));
  return file;
}

Result<void> RotatingFile::begin(WallTime now) {
  Fd fd(::open(options_.path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, kMode));
  struct stat st{};
  if (!fd || ::fstat(fd.get(), &st) != 0) return fail_errno(options_.path);
  if (!S_ISREG(st.st_mode)) return fail_errno(options_.path + " is no file", EINVAL);
  fd_ = std::move(fd);
  size_ = static_cast<std::uint64_t>(st.st_size);
  inode_ = st.st_ino;
  torn_ = false;
  begun_ = size_ == 0 ? now : birth_of(fd_.get(), st);
  if (size_ > 0) PEN_TRY(mend_end());
  return size_ > 0 || options_.header.empty() ? Result<void>{} : put(options_.header);
}

Result<void> RotatingFile::mend_end() {
  const auto end = static_cast<off_t>(size_), from = std::max<off_t>(0, end - kLongestLine);
  const auto size = static_cast<std::size_t>(end - from);
  PEN_TRY_ASSIGN(const std::string tail, read_at(fd_.get(), static_cast<std::uint64_t>(from), size, options_.path));
  if (tail.size() != size) return fail_errno(options_.path + " is shorter than it was", EIO);
  if (tail.back() == '\n') return {};
  const auto last = tail.rfind('\n');
  if (last == std::string::npos && from > 0) {  // nothing that was written here
    torn_ = true;
    return {};
  }
  const off_t whole = last == std::string::npos ? 0 : from + static_cast<off_t>(last) + 1;
  if (::ftruncate(fd_.get(), whole) != 0) return fail_errno(options_.path);
  size_ = static_cast<std::uint64_t>(whole);
  return {};
}

Result<void> RotatingFile::put(std::string_view bytes) {
  if (torn_) PEN_TRY(write_all(fd_.get(), "\n", options_.path));
  size_ += torn_ ? 1 : 0;
  torn_ = false;
  if (auto written = write_all(fd_.get(), bytes, options_.path); !written) {
    torn_ = ::ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0;
    return written;
  }
  size_ += bytes.size();
  return {};
}

bool RotatingFile::due(std::size_t more, WallTime now) const {
  if (size_ <= options_.header.size()) return false;
  if (options_.max_size != 0 && size_ + more > options_.max_size) return true;
  return options_.max_age.count() != 0 && now - begun_ >= options_.max_age;
}

Result<void> RotatingFile::rotate(WallTime now) {
  const std::string stamp =
      fmt::format("{}.{:%Y%m%d-%H%M%S}", options_.path, fmt::gmtime(static_cast<std::time_t>(unix_seconds(now))));
  std::string name = stamp;
  for (int i = 1; exists(name) || exists(name + ".gz"); ++i) name = fmt::format("{}-{:04}", stamp, i);
  if (::rename(options_.path.c_str(), name.c_str()) != 0) return fail_errno(name);
  Fd before = std::move(fd_);
  const auto size = size_, inode = inode_;
  if (auto begun = begin(now); !begun) {
    // The lines of the next minute would be compressed away with the renamed one.
    if (!fd_ && ::rename(name.c_str(), options_.path.c_str()) == 0) {
      fd_ = std::move(before);
      size_ = size;
      inode_ = inode;
    }
    if (!fd_) fd_ = std::move(before);
    return begun;
  }
  renamed_ = true;
  return {};
}

Result<void> RotatingFile::append(std::string_view lines, WallTime now) {
  if (due(lines.size(), now) && now >= not_before_) {
    if (auto rotated = rotate(now); rotated) {
      not_before_ = {};
    } else {
      if (not_before_ == WallTime{}) trouble_ = std::move(rotated).error();
      not_before_ = now + kRenameAgain;
    }
  }
  if (size_ == 0 && !options_.header.empty()) PEN_TRY(put(options_.header));
  return put(lines);
}

Result<void> RotatingFile::reopen_if_moved(WallTime now) {
  struct stat st{};
  if (::stat(options_.path.c_str(), &st) == 0 && st.st_ino == inode_) return {};
  return begin(now);
}

Result<void> tidy(const std::string& path, bool compressed, std::size_t keep) {
  const auto slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string base = path.substr(slash == std::string::npos ? 0 : slash + 1);
  std::vector<std::string> names;  // without ".gz"
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (!name.starts_with(base)) continue;
    if (name.ends_with(".gz.tmp") && is_stamp(name.substr(base.size(), name.size() - base.size() - 7)))
      ::unlink((directory + name).c_str());  // cut short
    if (name.ends_with(".gz")) name.resize(name.size() - 3);
    if (is_stamp(std::string_view(name).substr(base.size()))) names.push_back(std::move(name));
  }
  if (error) return fail_errno(directory, error.value());
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (keep != 0 && names.size() > keep) {
    const auto old = names.end() - static_cast<std::ptrdiff_t>(keep);
    for (auto at = names.begin(); at != old; ++at)
      for (const char* ending : {"", ".gz"})
        if (::unlink((directory + *at + ending).c_str()) != 0 && errno != ENOENT) return fail_errno(directory + *at);
    names.erase(names.begin(), old);
  }
  if (!compressed) return {};
  for (const auto& name : names)
    if (exists(directory + name)) PEN_TRY(compress(directory + name));
  return {};
}

}  // namespace pen::penevents
