#pragma once
/// What making an indexed table file is, whatever its format: entries checked and put together, and a new file put in
/// the old one's place.
///
/// Use:     Content content; auto warnings = merge(content, entries, source, kMaxKey, options);
///          replace_file(path, options.mode, [&](const std::string& fresh) { … write and close it … });
/// Promise: readers see the old file or the new one, never a part, and a crash leaves the old one. No locks.
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

/// Told now and then while much is done: so many of so many parts.
using Progress = std::function<void(std::size_t done, std::size_t of)>;

struct BuildOptions {
  /// What to do with a key that is there already: warn (default), be silent (-w), replace (-r).
  enum class Duplicates { warn, ignore, replace } duplicates = Duplicates::warn;
  bool fold_keys = true;
  unsigned mode = 0644;
  bool start_from_old = false;  // -i: keep what the old file has
  Progress progress = {};       // entries put together, then written
};

/// Calls progress for one of some thousand parts.
inline void tell(const Progress& progress, std::size_t done, std::size_t of) {
  constexpr std::size_t kEvery = 4096;
  if (progress && done % kEvery == 0) progress(done, of);
}

/// Adds the entries. Returns the warnings (duplicate keys). source: for messages. Errors: too_large (a key beyond
/// max_key, a value beyond kMaxValue), syntax (a NUL).
Result<std::vector<std::string>> merge(Content& content, const std::vector<TableEntry>& entries,
                                       std::string_view source, std::size_t max_key, const BuildOptions& options);

/// Has `write` make a file beside path, syncs it and renames it to path. Errors: those of write; unreadable + errno.
Result<void> replace_file(const std::string& path, unsigned mode,
                          const std::function<Result<void>(const std::string& fresh)>& write);

/// The old file's content for BuildOptions::start_from_old, read by `read`; none when it is not there.
Result<Content> begin_content(const BuildOptions& options, const std::function<Result<Content>()>& read);

/// Takes the keys out of what `read` gives and, if any was there, hands the rest to `write` with the file's mode.
/// Returns how many were there.
Result<std::size_t> remove_keys(const std::string& path, const std::vector<std::string>& keys, bool fold_keys,
                                const std::function<Result<Content>()>& read,
                                const std::function<Result<void>(const Content& content, unsigned mode)>& write);

}  // namespace pen::map
