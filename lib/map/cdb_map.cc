#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>

#include "lib/base/bytes.h"
#include "lib/base/file_io.h"
#include "lib/map/cdb_file.h"
#include "lib/map/indexed_map.h"
#include "lib/map/table_file.h"
#include "lib/map/types.h"

namespace pen::map {
namespace {

constexpr std::size_t kTables = 256, kPair = 8, kHeader = kTables * kPair;

std::uint32_t hash_of(std::string_view key) {
  std::uint32_t h = 5381;
  for (const char c : key) h = ((h << 5) + h) ^ static_cast<unsigned char>(c);
  return h;
}

struct Pair {
  std::uint32_t first = 0, second = 0;
};
Pair pair_at(std::string_view bytes, std::size_t at = 0) {
  const auto* raw = reinterpret_cast<const std::byte*>(bytes.data() + at);
  return {load_le<std::uint32_t>(raw), load_le<std::uint32_t>(raw + 4)};
}
void put_pair(std::string& out, std::size_t at, std::uint64_t first, std::uint64_t second) {
  auto* raw = reinterpret_cast<std::byte*>(out.data() + at);
  store_le(raw, static_cast<std::uint32_t>(first));
  store_le(raw + 4, static_cast<std::uint32_t>(second));
}

std::string without_nul(std::string text) {
  if (text.ends_with('\0')) text.pop_back();
  return text;
}

/// The bytes of a file with this content. Errors: too_large.
Result<std::string> image_of(const std::string& path, const Content& content, const Progress& progress) {
  std::array<std::vector<Pair>, kTables> tables;
  std::uint64_t size = kHeader;
  for (const auto& [key, value] : content) size += kPair + key.size() + value.size() + 2 * kPair;  // with its two slots
  if (size > std::numeric_limits<std::uint32_t>::max())
    return fail(MapError::too_large, path + ": a cdb file holds 4 GiB at most");
  std::string out(kHeader, '\0');
  out.reserve(size);
  std::size_t done = 0;
  for (const auto& [key, value] : content) {
    tell(progress, content.size() + ++done, 2 * content.size());
    const std::uint32_t hash = hash_of(key);
    tables[hash % kTables].push_back({hash, static_cast<std::uint32_t>(out.size())});
    out.resize(out.size() + kPair);
    put_pair(out, out.size() - kPair, key.size(), value.size());
    out += key;
    out += value;
  }
  for (std::size_t t = 0; t < kTables; ++t) {
    const std::size_t start = out.size(), slots = tables[t].size() * 2;
    put_pair(out, t * kPair, start, slots);
    out.resize(start + slots * kPair);
    for (const auto& entry : tables[t]) {
      std::size_t slot = entry.first / kTables % slots;
      while (pair_at(out, start + slot * kPair).second != 0) slot = (slot + 1) % slots;
      put_pair(out, start + slot * kPair, entry.first, entry.second);
    }
  }
  return out;
}

Result<void> write_file(const std::string& path, const Content& content, unsigned mode, const Progress& progress) {
  PEN_TRY_ASSIGN(const std::string image, image_of(path, content, progress));
  return replace_file(path, mode, [&](const std::string& fresh) -> Result<void> {
    const Fd fd(::open(fresh.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd) return fail(MapError::unreadable, "write " + path, errno);
    const auto written = write_all(fd.get(), image, path);
    return written ? written : fail(MapError::unreadable, "write " + path, written.error().sys_errno());
  });
}

Result<Content> old_content(const std::string& path) {
  Content content;
  PEN_TRY_ASSIGN(const auto file, CdbFile::open(path));
  PEN_TRY(file->each([&](std::string_view key, std::string_view value) {
    content.try_emplace(std::string(key), value);
    return true;
  }));
  return content;
}

}  // namespace

Result<std::shared_ptr<CdbFile>> CdbFile::open(const std::string& path) {
  PEN_TRY_ASSIGN(TableFile opened, open_table_file(path));
  const int fd = opened.fd.release();
  struct stat st{};
  const bool known = ::fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
  std::shared_ptr<CdbFile> file(new CdbFile(path, fd, known ? static_cast<std::uint64_t>(st.st_size) : 0));
  if (file->size_ < kHeader) return fail(MapError::unreadable, path + ": not a cdb file");
  return file;
}

CdbFile::~CdbFile() { ::close(fd_); }

std::unexpected<Error> CdbFile::damaged() const {
  return fail(MapError::unreadable, path_ + ": damaged: make the table again from its source");
}

Result<std::string> CdbFile::read(std::uint64_t at, std::uint64_t bytes) const {
  if (at > size_ || bytes > size_ - at) return damaged();
  auto text = read_at(fd_, at, bytes, path_);
  if (!text) return fail(MapError::unreadable, "read " + path_, text.error().sys_errno());
  if (text->size() < bytes) return damaged();
  return text;
}

Result<std::optional<std::string>> CdbFile::find_exactly(std::string_view key) const {
  const std::uint32_t hash = hash_of(key);
  PEN_TRY_ASSIGN(const std::string head, read(hash % kTables * kPair, kPair));
  const auto [table, slots] = pair_at(head);
  if (slots == 0) return std::nullopt;
  if (table < kHeader || table + std::uint64_t{slots} * kPair > size_) return damaged();
  auto slot = static_cast<std::uint32_t>(hash / kTables % slots);
  for (std::uint32_t tried = 0; tried < slots; ++tried, slot = (slot + 1) % slots) {
    PEN_TRY_ASSIGN(const std::string entry, read(table + std::uint64_t{slot} * kPair, kPair));
    const auto [its_hash, record] = pair_at(entry);
    if (record == 0) return std::nullopt;
    if (its_hash != hash) continue;
    PEN_TRY_ASSIGN(const std::string lengths, read(record, kPair));
    const auto [key_size, value_size] = pair_at(lengths);
    if (key_size != key.size()) continue;
    PEN_TRY_ASSIGN(const std::string found, read(record + kPair, key_size));
    if (found != key) continue;
    if (value_size > kMaxValue + 1) return damaged();
    PEN_TRY_ASSIGN(auto value, read(record + kPair + key_size, value_size));
    return without_nul(std::move(value));
  }
  return std::nullopt;
}

Value CdbFile::find(std::string_view key) const {
  if (key.empty() || key.size() > kMaxKey || key.find('\0') != std::string_view::npos) return std::nullopt;
  PEN_TRY_ASSIGN(auto plain, find_exactly(key));
  if (plain) return plain;
  return find_exactly(std::string(key) + '\0');
}

Result<void> CdbFile::each(const std::function<bool(std::string_view, std::string_view)>& visit) const {
  PEN_TRY_ASSIGN(const std::string header, read(0, kHeader));
  // The hash tables come after the last record.
  std::uint64_t end = size_;
  for (std::size_t t = 0; t < kTables; ++t) end = std::min<std::uint64_t>(end, pair_at(header, t * kPair).first);
  for (std::uint64_t at = kHeader; at < end;) {
    PEN_TRY_ASSIGN(const std::string lengths, read(at, kPair));
    const auto [key_size, value_size] = pair_at(lengths);
    if (key_size > kMaxKey + 1 || value_size > kMaxValue + 1) return damaged();
    PEN_TRY_ASSIGN(auto key, read(at + kPair, key_size));
    PEN_TRY_ASSIGN(auto value, read(at + kPair + key_size, value_size));
    if (!visit(without_nul(std::move(key)), without_nul(std::move(value)))) return {};
    at += kPair + key_size + value_size;
  }
  return {};
}

Result<std::vector<std::string>> build_cdb(const std::string& path, const std::vector<TableEntry>& entries,
                                           std::string_view source, const BuildOptions& options) {
  PEN_TRY_ASSIGN(Content content, begin_content(options, [&] { return old_content(path); }));
  PEN_TRY_ASSIGN(auto warnings, merge(content, entries, source, kMaxKey, options));
  PEN_TRY(write_file(path, content, options.mode, options.progress));
  return warnings;
}

Result<std::size_t> remove_from_cdb(const std::string& path, const std::vector<std::string>& keys, bool fold_keys,
                                    const Progress& progress) {
  return remove_keys(
      path, keys, fold_keys, [&] { return old_content(path); },
      [&](const Content& content, unsigned mode) { return write_file(path, content, mode, progress); });
}

std::shared_ptr<Map> make_cdb(std::string spec, const std::string& name, const OpenOptions& options) {
  return std::make_shared<IndexedMap<CdbFile>>(std::move(spec), name + ".cdb", options);
}

}  // namespace pen::map
