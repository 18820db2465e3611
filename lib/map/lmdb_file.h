#pragma once
/// Indexed table files, NAME.lmdb, in the format of Postfix's lmdb tables: one unnamed database, keys and values
/// usually with a trailing NUL.
///
/// Use:     build_lmdb("transport.lmdb", entries, "transport", options);    // penmap transport
///          auto file = LmdbFile::open("transport.lmdb"); (*file)->find(key);
/// Writing: a new file always replaces the old one (build.h).
/// Thread:  find() from any thread; everything else from one.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/map/build.h"
#include "lib/map/map.h"
#include "lib/map/table_text.h"

namespace pen::lmdb {
class Database;
}

namespace pen::map {

inline constexpr std::size_t kMaxLmdbKey = 510;  // LMDB's own bound, less the NUL

class LmdbFile {
 public:
  /// Errors: unreadable (missing, not an LMDB file, shorter than its own header says).
  static Result<std::shared_ptr<LmdbFile>> open(const std::string& path);
  ~LmdbFile();
  LmdbFile(const LmdbFile&) = delete;
  LmdbFile& operator=(const LmdbFile&) = delete;
  /// The value under key, with or without trailing NULs in the file. Keys beyond kMaxLmdbKey are never found.
  Value find(std::string_view key) const;
  /// Visits every key and value in key order; stops when visit returns false. Errors: unreadable.
  Result<void> each(const std::function<bool(std::string_view key, std::string_view value)>& visit) const;

 private:
  LmdbFile(std::string path, std::unique_ptr<lmdb::Database> database);

  std::string path_;
  std::unique_ptr<lmdb::Database> database_;
};

/// Writes a new file and replaces path by it. Returns the warnings (duplicate keys). Errors: too_large, unreadable +
/// errno.
Result<std::vector<std::string>> build_lmdb(const std::string& path, const std::vector<TableEntry>& entries,
                                            std::string_view source, const BuildOptions& options);
/// Writes a new file without these keys; returns the number of keys removed.
Result<std::size_t> remove_from_lmdb(const std::string& path, const std::vector<std::string>& keys, bool fold_keys,
                                     const Progress& progress = {});

}  // namespace pen::map
