#include "lib/queue/queue_log/testing/fault_storage.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>

#include "lib/base/check.h"

namespace pen::testing {
namespace {
constexpr std::size_t kSector = 512;
constexpr std::size_t kPage = 4096;
using Sector = std::array<char, kSector>;
constexpr Sector kZeros{};
}  // namespace

/// Sparse: sectors that were never written are zeros and take no memory. Sectors are shared between copies.
struct FaultStorage::File {
  using Shared = std::shared_ptr<const Sector>;
  std::uint64_t size = 0;
  std::uint64_t made = 0;  // its size before somebody cut it short
  std::unordered_map<std::uint64_t, Shared> disk;
  std::unordered_map<std::uint64_t, Shared> cache;  // where the cache differs from the disk
  // Dirty sectors: every content since the last sync, oldest first (the last is what the cache shows).
  std::map<std::uint64_t, std::vector<Shared>> dirty;

  const Sector& show(std::uint64_t n) const {
    if (const auto it = cache.find(n); it != cache.end()) return *it->second;
    if (const auto it = disk.find(n); it != disk.end()) return *it->second;
    return kZeros;
  }
};

FaultStorage::FaultStorage() = default;
FaultStorage::~FaultStorage() = default;
FaultStorage::FaultStorage(FaultStorage&&) noexcept = default;
FaultStorage& FaultStorage::operator=(FaultStorage&&) noexcept = default;

std::size_t FaultStorage::slots() const { return files_.size(); }

Result<std::vector<FaultStorage::SlotInfo>> FaultStorage::list() {
  std::vector<SlotInfo> result;
  for (const auto& [slot, file] : files_) result.push_back({slot, file->size});
  for (const Slot slot : foreign_) result.push_back({slot, 0, false});
  return result;
}

Result<void> FaultStorage::allocate(Slot slot, std::uint64_t size) {
  if (before_operation) before_operation(*this);
  ++operations_;
  const auto old = files_.find(slot);
  PEN_CHECK(old == files_.end() || old->second->size < size);
  if (old == files_.end()) {
    if (files_.size() + aside_ >= capacity) return fail(Error::from_errno(ENOSPC, "allocate"));
    files_.emplace(slot, std::make_unique<File>());
    if (before_operation) before_operation(*this);
    ++operations_;
  }
  files_.at(slot)->size = files_.at(slot)->made = size;
  return {};
}

Result<void> FaultStorage::write(Slot slot, std::uint64_t offset, Bytes bytes) {
  if (before_operation) before_operation(*this);
  ++operations_;
  ++writes_;
  bytes_written_ += bytes.size();
  const bool fails = fail_write != 0 && (fail_one_write ? writes_ == fail_write : writes_ >= fail_write);
  if (fails) {
    half_written_.push_back({slot, offset, bytes.size()});
    bytes = bytes.first(bytes.size() / 2);
  }
  File& file = *files_.at(slot);
  PEN_CHECK(offset + bytes.size() <= file.made, "write outside of the segment");
  file.size = std::max<std::uint64_t>(file.size, offset + bytes.size());
  std::uint64_t at = offset;
  while (!bytes.empty()) {
    const std::uint64_t n = at / kSector;
    const std::size_t in = at % kSector;
    const std::size_t size = std::min(bytes.size(), kSector - in);
    auto sector = std::make_shared<Sector>(file.show(n));
    std::memcpy(sector->data() + in, bytes.data(), size);
    file.cache[n] = sector;
    file.dirty[n].push_back(sector);
    bytes = bytes.subspan(size);
    at += size;
  }
  if (fails) return fail(Error::from_errno(write_errno, "write"));
  return {};
}

Result<void> FaultStorage::sync(Slot slot) {
  if (before_operation) before_operation(*this);
  ++operations_;
  ++syncs_;
  File& file = *files_.at(slot);
  if (fail_sync != 0 && syncs_ >= fail_sync) {
    file.dirty.clear();
    return fail(Error::from_errno(EIO, "sync"));
  }
  for (auto& [n, versions] : file.dirty) {
    file.disk[n] = versions.back();
    file.cache.erase(n);
  }
  file.dirty.clear();
  return {};
}

Result<void> FaultStorage::read(Slot slot, std::uint64_t offset, MutableBytes into) {
  const File& file = *files_.at(slot);
  if (offset + into.size() > file.size) return fail(Error::from_errno(EIO, "read past the end"));
  if (const auto bad = unreadable_.find(slot); bad != unreadable_.end()) {
    const auto first = bad->second.lower_bound(offset / kSector);
    if (first != bad->second.end() && *first * kSector < offset + into.size())
      return fail(Error::from_errno(EIO, "read"));
  }
  while (!into.empty()) {
    const std::size_t in = offset % kSector;
    const std::size_t size = std::min(into.size(), kSector - in);
    std::memcpy(into.data(), file.show(offset / kSector).data() + in, size);
    into = into.subspan(size);
    offset += size;
  }
  return {};
}

Result<void> FaultStorage::drop_cache(Slot slot) {
  File& file = *files_.at(slot);
  // Dirty pages cannot be dropped; clean ones show the disk again.
  for (auto it = file.cache.begin(); it != file.cache.end();)
    it = file.dirty.contains(it->first) ? std::next(it) : file.cache.erase(it);
  return {};
}

Result<void> FaultStorage::set_aside(Slot slot) {
  if (before_operation) before_operation(*this);
  ++operations_;
  if (set_aside_errno != 0) return fail(Error::from_errno(set_aside_errno, "set aside"));
  PEN_CHECK(files_.erase(slot) == 1);
  unreadable_.erase(slot);
  ++aside_;
  return {};
}

void FaultStorage::make_unreadable(Slot slot, std::uint64_t offset, std::uint64_t bytes) {
  for (std::uint64_t n = offset / kSector; n * kSector < offset + bytes; ++n) unreadable_[slot].insert(n);
}

FaultStorage FaultStorage::cut(Cut how, Random& random) const {
  FaultStorage after;
  after.capacity = capacity;
  after.unreadable_ = unreadable_;
  after.foreign_ = foreign_;
  after.aside_ = aside_;
  after.half_written_ = half_written_;
  for (const auto& [slot, file] : files_) {
    auto copy = std::make_unique<File>();
    copy->size = file->size;
    copy->made = file->made;
    copy->disk = file->disk;
    if (how == Cut::kill) {
      copy->cache = file->cache;
      copy->dirty = file->dirty;
    } else if (how != Cut::none) {
      std::uint64_t page = UINT64_MAX;
      double page_age = 0;
      for (const auto& [n, versions] : file->dirty) {
        // how many of the states came to be; 0: what the disk held
        std::size_t version = versions.size();
        if (how == Cut::torn) {
          version = random.below(versions.size() + 1);
        } else if (how == Cut::random) {
          if (n / (kPage / kSector) != page) {
            page = n / (kPage / kSector);
            page_age = random.chance(0.4) ? 1.0 : random.chance(0.4) ? 0.0 : random.unit();
          }
          version = static_cast<std::size_t>(page_age * static_cast<double>(versions.size()) + 0.5);
        }
        if (version > 0) copy->disk[n] = versions[version - 1];
      }
    }
    after.files_.emplace(slot, std::move(copy));
  }
  return after;
}

void FaultStorage::flip(Slot slot, std::uint64_t offset, unsigned char bits) {
  File& file = *files_.at(slot);
  const std::uint64_t n = offset / kSector;
  auto flipped = [&](const Sector& from) {
    auto sector = std::make_shared<Sector>(from);
    auto& c = (*sector)[offset % kSector];
    c = static_cast<char>(static_cast<unsigned char>(c) ^ bits);
    return sector;
  };
  const auto on_disk = file.disk.find(n);
  auto disk = flipped(on_disk == file.disk.end() ? kZeros : *on_disk->second);
  if (const auto cached = file.cache.find(n); cached != file.cache.end()) cached->second = flipped(*cached->second);
  file.disk[n] = std::move(disk);
}

void FaultStorage::truncate(Slot slot, std::uint64_t size) { files_.at(slot)->size = size; }
void FaultStorage::lose(Slot slot) { files_.erase(slot); }

std::string FaultStorage::content(Slot slot) const {
  const File& file = *files_.at(slot);
  std::string out;
  for (std::uint64_t at = 0; at < file.size; at += kSector) {
    const Sector& s = file.show(at / kSector);
    out.append(s.data(), std::min<std::uint64_t>(kSector, file.size - at));
  }
  return out;
}

}  // namespace pen::testing
