#include "lib/queue/spool/spool.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <xxhash.h>

#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/file_io.h"
#include "lib/base/log.h"
#include "lib/queue/spool/breakage.h"

namespace pen::spool {
namespace {

// Sector 0: magic u64, file u32, use u32, checksum u64. Sector 1: magic u64, file u32, use u32, length u64,
// id length u8, id, …, checksum u64 at 504. One sector each, so that neither can be torn.
constexpr std::uint64_t kUseMagic = 0x31455355'4b544e50;    // "PNTKUSE1"
constexpr std::uint64_t kOwnerMagic = 0x314e574f'4b544e50;  // "PNTKOWN1"
constexpr std::size_t kSector = 512;
constexpr std::size_t kMaxOwner = 64;
// More than any disk has, and small enough that sums with it do not overflow.
constexpr std::uint64_t kMostExpected = std::uint64_t{1} << 62U;

constexpr std::uint64_t rounded(std::uint64_t size) { return (size + kGrowth - 1) / kGrowth * kGrowth; }

std::byte* raw(std::string& s) { return reinterpret_cast<std::byte*>(s.data()); }

std::string use_sector(FileNumber file, std::uint32_t use) {
  std::string out(kSector, '\0');
  store_le(raw(out), kUseMagic);
  store_le(raw(out) + 8, file);
  store_le(raw(out) + 12, use);
  store_le(raw(out) + 16, std::uint64_t{XXH3_64bits(out.data(), 16)});
  return out;
}

std::string owner_sector(FileNumber file, std::uint32_t use, std::string_view id, std::uint64_t length) {
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

/// Whether the name of a spool file leads to something else: a link, a directory, or a file that somebody else has
/// made.
bool not_ours(const Error& error) {
  return error.is_errno(ELOOP) || error.is_errno(EMLINK) || error.is_errno(EISDIR) || error.is_errno(EEXIST);
}

std::size_t descriptor_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}
}  // namespace

Result<std::optional<Spool::Header>> Spool::read_header(int fd) {
  PEN_TRY_ASSIGN(std::string block, read_at(fd, 0, 2 * kSector, "read spool file"));
  return parse_header(std::move(block));
}

Result<std::optional<Spool::Header>> Spool::header_of(int fd) {
  PEN_TRY_ASSIGN(std::string block, files_->read(fd, 2 * kSector, 0));
  return parse_header(std::move(block));
}

std::optional<Spool::Header> Spool::parse_header(std::string block) {
  if (block.size() < 2 * kSector) return std::nullopt;
  const std::byte* p = raw(block);
  if (load_le<std::uint64_t>(p) != kUseMagic || load_le<std::uint64_t>(p + 16) != XXH3_64bits(block.data(), 16))
    return std::nullopt;
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
  return h;
}

Spool::Spool(std::unique_ptr<Files> files, std::uint64_t reserve, std::function<std::uint64_t()> new_use,
             std::size_t keep)
    : files_(std::move(files)),
      reserve_(reserve),
      new_use_(std::move(new_use)),
      pool_(Pool::kMaxLeases, keep),
      max_open_(std::clamp<std::size_t>(descriptor_limit() / 8, 16, kMaxOpen)) {}
Spool::~Spool() = default;

Result<std::unique_ptr<Spool>> Spool::open(const std::string& directory, std::uint64_t reserve) {
  PEN_TRY_ASSIGN(auto files, open_directory(directory));
  return open(std::move(files), reserve);
}

Result<std::unique_ptr<Spool>> Spool::open(std::unique_ptr<Files> files, std::uint64_t reserve,
                                           std::function<std::uint64_t()> new_use, std::size_t keep) {
  std::unique_ptr<Spool> spool(new Spool(std::move(files), reserve, std::move(new_use), keep));
  PEN_TRY_ASSIGN(const auto found, spool->files_->list());
  for (const FileNumber file : found) spool->pool_.found(file);
  if (broken(Breakage::found_files_are_free)) spool->pool_.sweep();
  return spool;
}

Result<Fd> Spool::create(FileNumber file) {
  PEN_TRY_ASSIGN(Fd fd, files_->create(file));
  // The name must survive a power cut like the content that the receiver syncs.
  if (broken(Breakage::name_not_synced)) return fd;
  if (auto synced = files_->sync_names(); !synced) {
    (void)files_->remove(file);  // otherwise its number could never be made again
    return std::unexpected(std::move(synced).error());
  }
  return fd;
}

Result<std::optional<Fd>> Spool::open_for_lease(const Pool::Leased& leased) {
  if (leased.fresh) return create(leased.file);
  readers_.erase(leased.file);  // ours would count
  PEN_TRY_ASSIGN(Fd fd, files_->open(leased.file, true));
  if (!broken(Breakage::leased_while_open)) {
    const auto alone = files_->only_here(fd.get());
    if (!alone) {
      if (!std::exchange(told_of_leases_, true))
        log::warning("spool: {}: the file system cannot tell who has a file open: every body gets a new file",
                     alone.error().message());
      PEN_TRY(files_->remove(leased.file));
      limit_hollow(leased.file, 0);
      return create(leased.file);
    }
    if (!*alone) return std::nullopt;
  }
  PEN_TRY_ASSIGN(const std::uint64_t size, files_->size(fd.get()));
  // Whole pages, and the header's too: who has put some into a pipe keeps them, so they must not stay the file's.
  if (size > kContentOffset && !broken(Breakage::not_cleared)) PEN_TRY(files_->clear(fd.get(), 0, rounded(size)));
  return fd;
}

bool Spool::give_back(std::uint64_t lease) { return pool_.give_back(lease); }

/// A client's declared size is only a claim. Beyond a part of the free space a file grows with its content instead, so
/// that clients that send less than they declare cannot fill the disk, however many they are and however often they
/// connect.
Result<void> Spool::grow(FileNumber number, int fd, std::uint64_t now, std::uint64_t needed) {
  constexpr std::uint64_t kPartOfDisk = 16;
  const std::uint64_t any = std::max(now, kGrowth);  // the size if none was declared
  if (needed > any) {
    PEN_TRY_ASSIGN(const std::uint64_t free, files_->free_bytes());
    if (needed - now > free) return fail(Error::from_errno(ENOSPC, "space for an announced body"));
    if (all_hollow_ + (needed - any) > (free + all_hollow_) / kPartOfDisk) needed = any;
  }
  const std::uint64_t size = std::max(now, rounded(needed));
  PEN_TRY(files_->reserve(fd, size));
  if (size <= any) return {};
  hollow_[number] += size - any;
  all_hollow_ += size - any;
  return {};
}

void Spool::limit_hollow(FileNumber number, std::uint64_t most) {
  const auto it = hollow_.find(number);
  if (it == hollow_.end() || it->second <= most) return;
  all_hollow_ -= it->second - most;
  it->second = most;
  if (most == 0) hollow_.erase(it);
}

Result<Spool::Lease> Spool::lease(std::uint64_t expected_size) {
  expected_size = std::min(expected_size, kMostExpected);
  if (reserve_ > 0) {
    PEN_TRY_ASSIGN(const std::uint64_t left, files_->free_bytes());
    if (left < reserve_ + expected_size) return fail(SpoolError::no_space);
  }
  std::optional<Pool::Leased> leased;
  std::vector<std::uint64_t> busy;
  Result<std::optional<Fd>> opened = std::optional<Fd>();
  for (;;) {
    leased = pool_.lease(busy.size() >= kMaxBusy);
    if (!leased) break;
    opened = open_for_lease(*leased);
    if (!opened && not_ours(opened.error())) {
      limit_hollow(leased->file, 0);
      pool_.not_ours(leased->lease);
      continue;
    }
    if (!opened || *opened) break;
    busy.push_back(leased->lease);
  }
  for (const std::uint64_t l : busy) pool_.set_aside(l);
  if (!leased) return fail(SpoolError::too_many);
  auto ready = opened ? prepare(leased->file, **opened, expected_size) : std::unexpected(std::move(opened).error());
  if (!ready) {
    Error error = std::move(ready).error();
    if (leased->fresh && !opened)
      pool_.never_made(leased->lease);
    else
      pool_.give_back(leased->lease);
    if (error.is_errno(ENOSPC) || error.is_errno(EDQUOT))
      return fail(SpoolError::no_space, error.context(), error.sys_errno());
    return fail(std::move(error));
  }
  return Lease{leased->lease, *std::move(*opened), kContentOffset};
}

Result<void> Spool::prepare(FileNumber number, const Fd& fd, std::uint64_t expected_size) {
  PEN_TRY_ASSIGN(const std::uint64_t size, files_->size(fd.get()));
  const std::uint64_t needed = kContentOffset + std::max<std::uint64_t>(expected_size, 1);
  if (size < needed) PEN_TRY(grow(number, fd.get(), size, needed));
  if (broken(Breakage::use_number_at_take)) return {};
  return files_->write(fd.get(), use_sector(number, fresh_use()), 0);
}

std::uint32_t Spool::fresh_use() {
  for (;;)
    if (const auto use = static_cast<std::uint32_t>(new_use_()); use != 0) return use;
}

Result<BodyRef> Spool::take(std::uint64_t lease, std::string_view queue_id, std::uint64_t length) {
  const auto file = pool_.leased(lease);
  if (!file) return fail(SpoolError::unknown_lease);
  PEN_CHECK(queue_id.size() <= kMaxOwner);
  PEN_TRY_ASSIGN(const Fd own, files_->open(*file, true));
  const int fd = own.get();
  PEN_TRY_ASSIGN(const std::uint64_t size, files_->size(fd));
  if (broken(Breakage::use_number_at_take)) PEN_TRY(files_->write(fd, use_sector(*file, fresh_use()), 0));
  if (size < kContentOffset || length > size - kContentOffset)
    return fail(SpoolError::too_short, std::string(queue_id));
  PEN_TRY_ASSIGN(const auto header, header_of(fd));
  if (!header || header->file != *file) return fail(SpoolError::wrong_owner, std::string(queue_id));
  PEN_TRY(files_->write(fd, owner_sector(*file, header->use, queue_id, length), kSector));
  const std::uint64_t filled = rounded(kContentOffset + length);
  limit_hollow(*file, size > filled ? size - filled : 0);
  PEN_CHECK(pool_.take(lease, header->use));
  return BodyRef{header->use} << 32 | *file;
}

Result<void> Spool::shrink(SteadyTime now) {
  if (!period_began_) period_began_ = now;
  if (now - *period_began_ >= kPeriod) {
    period_began_ = now;
    pool_.next_period();
  }
  // Not synced: a name that a power cut brings back is a file without an owner.
  for (const FileNumber file : pool_.surplus(kRemovedAtOnce)) {
    readers_.erase(file);
    PEN_TRY(files_->remove(file));
    limit_hollow(file, 0);
    pool_.removed(file);
  }
  return {};
}

/// The use in the file's own header; nullopt: no valid header.
std::optional<std::uint32_t> Spool::use_now(FileNumber file) {
  const auto opened = files_->open(file, false);
  if (!opened) return std::nullopt;
  const auto header = header_of(opened->get());
  if (!header || !*header || (*header)->file != file) return std::nullopt;
  return (*header)->use;
}

Spool::Look Spool::look(FileNumber file) {
  Look found{.path = files_->name(file), .size = 0, .header = {}, .fault = {}};
  const auto read = [&]() -> Result<void> {
    PEN_TRY_ASSIGN(const Fd fd, files_->open(file, false));
    PEN_TRY_ASSIGN(found.size, files_->size(fd.get()));
    PEN_TRY_ASSIGN(found.header, header_of(fd.get()));
    return {};
  };
  if (const auto done = read(); !done) found.fault = done.error().message();
  return found;
}

bool Spool::referenced(BodyRef ref) {
  switch (pool_.referenced(file_of(ref), use_of(ref))) {
    case Pool::Owner::yes:
      return true;
    case Pool::Owner::missing:
      return false;
    case Pool::Owner::another:
      break;
  }
  const auto use = use_now(file_of(ref));
  if (use) pool_.settle(file_of(ref), *use);
  return use == use_of(ref);
}

void Spool::release(BodyRef ref, std::uint64_t safe_after) {
  // The orphan pass has not met the file yet: another message may own it by now.
  if (pool_.unknown(file_of(ref)) && use_now(file_of(ref)) != use_of(ref) && !broken(Breakage::any_use_fits)) return;
  if (!pool_.release(file_of(ref), use_of(ref), safe_after)) return;
  readers_.erase(file_of(ref));
}

/// A reader of a file that was checked to be in the use that the reference names. While it is open, that cannot change.
Result<Fd> Spool::reader_of(BodyRef ref, std::optional<Fd> known) {
  const FileNumber file = file_of(ref);
  Fd reader;
  if (known) {
    reader = *std::move(known);
  } else {
    PEN_TRY_ASSIGN(reader, files_->open(file, false));
  }
  PEN_TRY_ASSIGN(const auto header, header_of(reader.get()));
  const bool same_use = header && (header->use == use_of(ref) || broken(Breakage::any_use_fits));
  if (!header || header->file != file || !same_use) return fail(SpoolError::wrong_owner, files_->name(file));
  return reader;
}

Result<Fd> Spool::open_to_read(BodyRef ref) {
  std::optional<Fd> known;
  if (auto node = readers_.extract(file_of(ref))) known = std::move(node.mapped());
  PEN_TRY_ASSIGN(Fd reader, reader_of(ref, std::move(known)));
  Fd copy(::fcntl(reader.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return fail_errno("duplicate a spool descriptor");
  if (readers_.size() >= max_open_) readers_.erase(readers_.begin());
  readers_.emplace(file_of(ref), std::move(reader));
  return copy;
}

Result<Fd> Spool::open_apart(BodyRef ref) { return reader_of(ref, std::nullopt); }

}  // namespace pen::spool
