#pragma once
/// Common steps of making an indexed table file, whatever its format: entries are checked and merged, and a new file
/// replaces the old one.
///
/// Use:     Content content; auto warnings = merge(content, entries, source, kMaxKey, options);
///          replace_file(path, options.mode, [&](const std::string& fresh) { … open, write and close it … });
/// Promise: readers see the old file or the new one, never a part; after a crash the old file is there. No locks.
/// Thread:  one per path.
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/map/map.h"
#include "lib/map/table_text.h"

namespace pen::map {

using Content = std::map<std::string, std::string>;

/// Called now and then during long work: `done` of `of` parts are done.
using Progress = std::function<void(std::size_t done, std::size_t of)>;

struct BuildOptions {
  /// What to do with a key that exists already: warn (default), be silent (-w), replace it (-r).
  enum class Duplicates { warn, ignore, replace } duplicates = Duplicates::warn;
  bool fold_keys = true;
  unsigned mode = 0644;
  bool start_from_old = false;  // -i: keep what the old file has
  Progress progress = {};       // entries put together, then written
};

/// Calls progress once for some thousand parts.
inline void tell(const Progress& progress, std::size_t done, std::size_t of) {
  constexpr std::size_t kEvery = 4096;
  if (progress && done % kEvery == 0) progress(done, of);
}

/// Adds the entries. Returns the warnings (duplicate keys). source: the name used in messages. Errors: too_large (a
/// key beyond max_key, a value beyond kMaxValue), syntax (a NUL).
Result<std::vector<std::string>> merge(Content& content, const std::vector<TableEntry>& entries,
                                       std::string_view source, std::size_t max_key, const BuildOptions& options);

/// Calls `write` to fill a file beside path that is empty, syncs that file and renames it to path. `fresh` leads to
/// that file and no other, even if another user can rename and link in the directory. Errors: those of write;
/// unreadable + errno.
Result<void> replace_file(const std::string& path, unsigned mode,
                          const std::function<Result<void>(const std::string& fresh)>& write);

/// The old file's content for BuildOptions::start_from_old, read by `read`; empty when there is no old file.
Result<Content> begin_content(const BuildOptions& options, const std::function<Result<Content>()>& read);

/// Removes the keys from the content that `read` returns. If any was there, hands the rest to `write` with the file's
/// mode. Returns the number of keys removed.
Result<std::size_t> remove_keys(const std::string& path, const std::vector<std::string>& keys, bool fold_keys,
                                const std::function<Result<Content>()>& read,
                                const std::function<Result<void>(const Content& content, unsigned mode)>& write);

}  // namespace pen::map
