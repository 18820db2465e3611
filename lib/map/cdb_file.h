#pragma once
/// Constant databases, NAME.cdb, in D. J. Bernstein's format, compatible with Postfix's cdb tables and tinycdb.
///
/// Use:     build_cdb("transport.cdb", entries, "transport", options);       // penmap cdb:transport
///          auto file = CdbFile::open("transport.cdb"); (*file)->find(key);
/// Format:  256 pairs (position, slots) of u32 LE; records: u32 key length, u32 value length, key, value; hash tables
///          of (hash, position) pairs. Keys and values are written without a NUL at the end, and are found with or
///          without one.
/// Reading: the descriptor stays open and only the needed parts of the file are read. So a file cut short under its
///          reader is an error and not a signal. Every number in the file is checked before it is used.
/// Writing: a new file always replaces the old one (build.h); at most 4 GiB, the format's bound.
/// Thread:  find() from any thread; everything else from one.
/// Source:  cr.yp.to/cdb/cdb.txt; Postfix CDB_README.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/map/build.h"
#include "lib/map/map.h"

namespace pen::map {

class CdbFile {
 public:
  /// Errors: unreadable (missing, or shorter than the smallest cdb).
  static Result<std::shared_ptr<CdbFile>> open(const std::string& path);
  ~CdbFile();
  CdbFile(const CdbFile&) = delete;
  CdbFile& operator=(const CdbFile&) = delete;
  /// The value under key; the first one if the file has several. Errors: unreadable (damaged).
  Value find(std::string_view key) const;
  /// Visits every key and value in the order of the file; stops when visit returns false. Errors: unreadable.
  Result<void> each(const std::function<bool(std::string_view key, std::string_view value)>& visit) const;

 private:
  CdbFile(std::string path, int fd, std::uint64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}
  std::unexpected<Error> damaged() const;
  Result<std::string> read(std::uint64_t at, std::uint64_t bytes) const;
  Result<std::optional<std::string>> find_exactly(std::string_view key) const;

  std::string path_;
  int fd_;
  std::uint64_t size_;
};

/// Writes a new file and replaces path by it. Returns the warnings (duplicate keys). Errors: too_large, unreadable +
/// errno.
Result<std::vector<std::string>> build_cdb(const std::string& path, const std::vector<TableEntry>& entries,
                                           std::string_view source, const BuildOptions& options);
/// Writes a new file without these keys; returns the number of keys removed.
Result<std::size_t> remove_from_cdb(const std::string& path, const std::vector<std::string>& keys, bool fold_keys,
                                    const Progress& progress = {});

}  // namespace pen::map
