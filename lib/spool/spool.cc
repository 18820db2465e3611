#include "lib/spool/spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/random.h"
#include "lib/base/text.h"

namespace pen::spool {
namespace {

// Sector 0: magic u64, file u32, use u32, checksum u64. Sector 1: magic u64, file u32, use u32, length u64,
// id length u8, id, …, checksum u64 at 504. One sector each, so that neither can be torn.
constexpr std::uint64_t kUseMagic = 0x31455355'4b544e50;    // "PNTKUSE1"
constexpr std::uint64_t kOwnerMagic = 0x314e574f'4b544e50;  // "PNTKOWN1"
constexpr std::size_t kSector = 512;
constexpr std::size_t kMaxOwner = 64;
constexpr std::string_view kPrefix = "body-";

std::string name_of(FileNumber file) { return fmt::format("{}{:08}", kPrefix, file); }

Result<void> write_at(int fd, std::string_view bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail_errno("write spool file", n == 0 ? EIO : errno);
    bytes.remove_prefix(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

std::byte* raw(std::string& s) { return reinterpret_cast<std::byte*>(s.data()); }

std::string use_sector(FileNumber file, std::uint32_t use) {
  std::string out(kSector, '\0');
  store_le(raw(out), kUseMagic);
  store_le(raw(out) + 8, file);
  store_le(raw(out) + 12, use);
  store_le(raw(out) + 16, std::uint64_t{XXH3_64bits(out.data(), 16)});
  return out;
}

std::string owner_sector(FileNumber file, std::uint32_t use, std::string_view id,
                         std::uint64_t length) {
  std::string out(kSector, '\0');
  store_le(raw(out), kOwnerMagic);
  store_le(raw(out) + 8, file);
  store_le(raw(out) + 12, use);
  store_le(raw(out) + 16, length);
  out[24] = static_cast<char>(id.size());
  out.replace(25, id.size(), id);
  store_le(raw(out) + 504, std::uint64_t{XXH3_64bits(out.data(), 504)});
  return out;
}

}  // namespace

Result<std::optional<Spool::Header>> Spool::read_header(int fd) {
  std::string block(2 * kSector, '\0');
  std::size_t got = 0;
  while (got < block.size()) {
    const ssize_t n = ::pread(fd, block.data() + got, block.size() - got, static_cast<off_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("read spool file");
    if (n == 0) return std::optional<Header>();
    got += static_cast<std::size_t>(n);
  }
  const std::byte* p = raw(block);
  if (load_le<std::uint64_t>(p) != kUseMagic ||
      load_le<std::uint64_t>(p + 16) != XXH3_64bits(block.data(), 16))
    return std::optional<Header>();
  Header h;
  h.file = load_le<std::uint32_t>(p + 8);
  h.use = load_le<std::uint32_t>(p + 12);
  const std::byte* o = p + kSector;
  const auto size = static_cast<std::size_t>(o[24]);
  if (load_le<std::uint64_t>(o) == kOwnerMagic && load_le<std::uint32_t>(o + 8) == h.file &&
      load_le<std::uint32_t>(o + 12) == h.use && size <= kMaxOwner &&
      load_le<std::uint64_t>(o + 504) == XXH3_64bits(o, 504)) {
    h.length = load_le<std::uint64_t>(o + 16);
    h.queue_id = block.substr(kSector + 25, size);
  }
  return std::optional(h);
}

Spool::Spool(std::string directory, async::Fd directory_fd, std::uint64_t reserve)
    : directory_(std::move(directory)), directory_fd_(std::move(directory_fd)), reserve_(reserve) {}
Spool::~Spool() = default;

Result<std::unique_ptr<Spool>> Spool::open(const std::string& directory, std::uint64_t reserve) {
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno("mkdir " + directory);
  async::Fd dir(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir) return fail_errno("open " + directory);
  if (::flock(dir.get(), LOCK_EX | LOCK_NB) != 0)
    return fail_errno(directory + " is in use by another process");
  std::unique_ptr<Spool> spool(new Spool(directory, std::move(dir), reserve));
  DIR* const listing = ::opendir(directory.c_str());
  if (listing == nullptr) return fail_errno("opendir " + directory);
  errno = 0;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string_view name = entry->d_name;
    if (name.starts_with(kPrefix)) {
      const auto number = parse_unsigned(name.substr(kPrefix.size()));
      if (number && *number > 0 && *number <= UINT32_MAX &&
          name_of(static_cast<FileNumber>(*number)) == name)
        spool->pool_.found(static_cast<FileNumber>(*number));
    }
    errno = 0;
  }
  const int why = errno;
  ::closedir(listing);
  if (why != 0) return fail_errno("read " + directory, why);
  return spool;
}

Result<void> Spool::create(FileNumber file) {
  const std::string name = name_of(file);
  async::Fd fd(::openat(directory_fd_.get(), name.c_str(),
                        O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return fail_errno("create " + directory_ + "/" + name);
  // The name must outlive a power cut as well as the content that the receiver syncs.
  if (::fsync(directory_fd_.get()) != 0) return fail_errno("fsync " + directory_);
  open_[file] = {.write = std::move(fd)};
  return {};
}

Result<int> Spool::writable(FileNumber file) {
  if (const auto it = open_.find(file); it != open_.end()) return it->second.write.get();
  if (open_.size() >= kMaxOpen) open_.erase(open_.begin());
  async::Fd fd(
      ::openat(directory_fd_.get(), name_of(file).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return fail_errno("open " + directory_ + "/" + name_of(file));
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return fail_errno("stat " + directory_ + "/" + name_of(file));
  const int result = fd.get();
  open_[file] = {.write = std::move(fd), .size = static_cast<std::uint64_t>(st.st_size)};
  return result;
}

/// Reserves blocks in whole steps; a file that is large enough already costs nothing.
Result<void> Spool::grow(int fd, std::uint64_t size) {
  const std::uint64_t rounded = (size + kGrowth - 1) / kGrowth * kGrowth;
  if (const int error = ::posix_fallocate(fd, 0, static_cast<off_t>(rounded)); error != 0) {
    if (error == ENOSPC || error == EDQUOT) return fail(SpoolError::no_space, directory_, error);
    return fail_errno("reserve space in " + directory_, error);
  }
  return {};
}

/// False: a description of an earlier lease is still open somewhere.
Result<bool> Spool::lock(FileNumber number) {
  File& file = open_.at(number);
  while (!file.locked && ::flock(file.write.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) return fail_errno("lock " + directory_ + "/" + name_of(number));
  }
  file.locked = true;
  return true;
}

bool Spool::give_back(std::uint64_t lease) {
  // Without our copy of the descriptor, the next lease has to open the file anew, and gets the lock only when the
  // receiver and its writes under way have let go.
  if (const auto file = pool_.leased(lease)) open_.erase(*file);
  return pool_.give_back(lease);
}

Result<Spool::Lease> Spool::lease(std::uint64_t expected_size) {
  if (reserve_ > 0) {
    struct statvfs st{};
    if (::fstatvfs(directory_fd_.get(), &st) != 0) return fail_errno("statvfs " + directory_);
    if (std::uint64_t{st.f_bavail} * st.f_frsize < reserve_ + expected_size)
      return fail(SpoolError::no_space, directory_);
  }
  std::optional<Pool::Leased> leased;
  auto give_up = [&](Error error) {
    if (leased->fresh && !open_.contains(leased->file))
      pool_.never_made(leased->lease);
    else
      pool_.give_back(leased->lease);
    if (error.is_errno(ENOSPC) || error.is_errno(EDQUOT))
      return fail(SpoolError::no_space, directory_, error.sys_errno());
    return fail(std::move(error));
  };
  std::vector<std::uint64_t> busy;
  Result<int> fd = 0;
  for (;;) {
    leased = pool_.lease(busy.size() >= kMaxBusy);
    if (!leased) break;
    if (leased->fresh) {
      if (auto made = create(leased->file); !made) fd = fail(std::move(made).error());
    }
    if (fd) fd = writable(leased->file);
    if (!fd) break;
    auto locked = lock(leased->file);
    if (!locked) fd = fail(std::move(locked).error());
    if (!fd || *locked) break;
    open_.erase(leased->file);
    busy.push_back(leased->lease);
  }
  for (const std::uint64_t l : busy) pool_.set_aside(l);
  if (!leased) return fail(SpoolError::too_many);
  if (!fd) return give_up(std::move(fd).error());
  File& file = open_.at(leased->file);
  const std::uint64_t needed = kContentOffset + std::max<std::uint64_t>(expected_size, 1);
  if (file.size < needed) {
    if (auto grown = grow(*fd, needed); !grown) return give_up(std::move(grown).error());
    file.size = (needed + kGrowth - 1) / kGrowth * kGrowth;
  }
  do {
    file.use = static_cast<std::uint32_t>(secure_random_u64());
  } while (file.use == 0);
  if (auto wrote = write_at(*fd, use_sector(leased->file, file.use), 0); !wrote)
    return give_up(std::move(wrote).error());
  async::Fd copy(::fcntl(*fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) return give_up(Error::from_errno(errno, "duplicate a spool descriptor"));
  return Lease{leased->lease, std::move(copy), kContentOffset};
}

Result<BodyRef> Spool::take(std::uint64_t lease, std::string_view queue_id, std::uint64_t length) {
  const auto file = pool_.leased(lease);
  if (!file) return fail(SpoolError::unknown_lease);
  PEN_CHECK(queue_id.size() <= kMaxOwner);
  PEN_TRY_ASSIGN(const int fd, writable(*file));
  struct stat st{};
  if (::fstat(fd, &st) != 0) return fail_errno("stat " + directory_ + "/" + name_of(*file));
  const auto size = static_cast<std::uint64_t>(st.st_size);
  if (size < kContentOffset || length > size - kContentOffset)
    return fail(SpoolError::too_short, std::string(queue_id));
  PEN_TRY_ASSIGN(const auto header, read_header(fd));
  if (!header || header->file != *file) return fail(SpoolError::wrong_owner, std::string(queue_id));
  PEN_TRY(write_at(fd, owner_sector(*file, header->use, queue_id, length), kSector));
  open_.at(*file).size = static_cast<std::uint64_t>(st.st_size);
  PEN_CHECK(pool_.take(lease));
  return BodyRef{header->use} << 32 | *file;
}

Result<async::Fd> Spool::open_to_read(BodyRef ref) {
  async::Fd fd(::openat(directory_fd_.get(), name_of(file_of(ref)).c_str(),
                        O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return fail_errno("open " + directory_ + "/" + name_of(file_of(ref)));
  PEN_TRY_ASSIGN(const auto header, read_header(fd.get()));
  if (!header || header->file != file_of(ref) || header->use != use_of(ref))
    return fail(SpoolError::wrong_owner, directory_ + "/" + name_of(file_of(ref)));
  return fd;
}

}  // namespace pen::spool
