#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/lmdb/database.h"
#include "lib/base/lmdb/pages.h"
#include "lib/map/indexed_map.h"
#include "lib/map/lmdb_file.h"
#include "lib/map/table_file.h"
#include "lib/map/types.h"

namespace pen::map {
namespace {

/// Turns liblmdb's error into an error of the table.
std::unexpected<Error> unreadable(const Error& e, const std::string& path) {
  if (const int code = e.sys_errno(); code != 0) return fail(MapError::unreadable, "open " + path, code);
  return fail(MapError::unreadable, e.context());
}

// liblmdb trusts the mapped file: a damaged one would crash the process at the first access.
Result<void> check_pages(int fd, const std::string& path) {
  const auto whole = lmdb::check_pages(fd);
  if (whole) return {};
  return fail(MapError::unreadable, path + ": " + whole.error().message() + ": make the table again from its source");
}

std::string_view without_nul(std::string_view text) {
  if (text.ends_with('\0')) text.remove_suffix(1);
  return text;
}

}  // namespace

LmdbFile::LmdbFile(std::string path, std::unique_ptr<lmdb::Database> database)
    : path_(std::move(path)), database_(std::move(database)) {}
LmdbFile::~LmdbFile() = default;

Result<std::shared_ptr<LmdbFile>> LmdbFile::open(const std::string& path) {
  PEN_TRY_ASSIGN(TableFile file, open_table_file(path));
  PEN_TRY(check_pages(file.fd.get(), path));
  std::string where = path;
  if (file.lent) {  // LMDB opens paths only
    PEN_TRY_ASSIGN(file.fd, memory_copy(file.fd.get(), path));
    where = "/proc/self/fd/" + std::to_string(file.fd.get());
  }
  auto database = lmdb::Database::open(where, {.directory = false, .lock = false, .write = false, .mode = 0});
  if (!database) return unreadable(database.error(), path);
  return std::shared_ptr<LmdbFile>(new LmdbFile(path, *std::move(database)));
}

Value LmdbFile::find(std::string_view key) const {
  if (key.empty() || key.size() > kMaxLmdbKey || key.find('\0') != std::string_view::npos) return std::nullopt;
  const auto read = lmdb::Read::begin(*database_);
  if (!read) return unreadable(read.error(), path_);
  std::string with_nul(key);
  with_nul.push_back('\0');
  for (const std::string_view form : {std::string_view(with_nul), key}) {
    const auto value = read->get(form);
    if (!value) return unreadable(value.error(), path_);
    if (*value) return std::string(without_nul(**value));
  }
  return std::nullopt;
}

Result<void> LmdbFile::each(const std::function<bool(std::string_view, std::string_view)>& visit) const {
  const auto read = lmdb::Read::begin(*database_);
  if (!read) return unreadable(read.error(), path_);
  const auto end = read->each(
      {}, [&](std::string_view key, std::string_view value) { return visit(without_nul(key), without_nul(value)); });
  if (!end) return unreadable(end.error(), path_);
  return {};
}

namespace {

/// Writes content to an empty file at path in one transaction. Errors: DatabaseError::full: the map size was too small.
Result<void> write_content(const std::string& path, const Content& content, std::size_t map_size,
                           const Progress& progress) {
  PEN_TRY_ASSIGN(const auto database, lmdb::Database::open(path, {.map_size = map_size,
                                                                  .directory = false,
                                                                  .lock = false,
                                                                  .sync = false,  // replace_file() does
                                                                  .mode = 0600}));
  PEN_TRY_ASSIGN(auto write, lmdb::Write::begin(*database));
  const auto with_nul = [](const std::string& text) { return std::string_view(text.c_str(), text.size() + 1); };
  std::size_t done = 0;
  for (const auto& [key, value] : content) {
    tell(progress, content.size() + ++done, 2 * content.size());
    PEN_TRY(write.put(with_nul(key), with_nul(value)));
  }
  return write.commit();
}

Result<void> write_file(const std::string& path, const Content& content, unsigned mode, const Progress& progress) {
  std::size_t bytes = 0;
  for (const auto& [key, value] : content) bytes += key.size() + value.size() + 64;
  // LMDB reserves address space, not disk: being generous costs nothing.
  std::size_t map_size = std::max<std::size_t>(bytes * 4, 16u << 20) / 4096 * 4096;
  return replace_file(path, mode, [&](const std::string& fresh) -> Result<void> {
    for (;;) {
      const auto written = write_content(fresh, content, map_size, progress);
      if (written) return {};
      if (!written.error().is(lmdb::DatabaseError::full)) return unreadable(written.error(), path);
      if (::truncate(fresh.c_str(), 0) != 0) return fail(MapError::unreadable, "write " + path, errno);
      map_size *= 2;
    }
  });
}

Result<Content> old_content(const std::string& path) {
  Content content;
  PEN_TRY_ASSIGN(const auto file, LmdbFile::open(path));
  PEN_TRY(file->each([&](std::string_view key, std::string_view value) {
    content.try_emplace(std::string(key), value);
    return true;
  }));
  return content;
}

}  // namespace

Result<std::vector<std::string>> build_lmdb(const std::string& path, const std::vector<TableEntry>& entries,
                                            std::string_view source, const BuildOptions& options) {
  PEN_TRY_ASSIGN(Content content, begin_content(options, [&] { return old_content(path); }));
  PEN_TRY_ASSIGN(auto warnings, merge(content, entries, source, kMaxLmdbKey, options));
  PEN_TRY(write_file(path, content, options.mode, options.progress));
  return warnings;
}

Result<std::size_t> remove_from_lmdb(const std::string& path, const std::vector<std::string>& keys, bool fold_keys,
                                     const Progress& progress) {
  return remove_keys(
      path, keys, fold_keys, [&] { return old_content(path); },
      [&](const Content& content, unsigned mode) { return write_file(path, content, mode, progress); });
}

std::shared_ptr<Map> make_lmdb(std::string spec, const std::string& name, const OpenOptions& options) {
  return std::make_shared<IndexedMap<LmdbFile>>(std::move(spec), name + ".lmdb", options);
}

}  // namespace pen::map
