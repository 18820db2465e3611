#pragma once
/// A file that lines are appended to, and that is renamed and begun anew when it is large or old.
///
/// Use:     auto file = RotatingFile::open({.path = …, .max_size = …}, now);
///          file->append(lines, now);                       // one write()
///          for (auto& old : file->take_renamed()) pool.run([old] { return tidy(old, …); });
/// Names:   "events.json.20261127-012024", of the moment of renaming (UTC), with ".gz" when it is compressed.
/// Crash:   a file is renamed before the new one is made; a compressed file is written beside, synced and renamed
///          before the plain one is removed. tidy() finishes what was cut short.
/// Whole:   what is written in part is taken back, and a torn last line that a power cut left is cut off by open().
/// Errors:  errno. What could not be written is lost, and append() says so. If a file cannot be renamed its lines go on
///          in it, and take_trouble() says why.
/// Thread:  one; tidy() any, of one path one at a time.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen::penevents {

struct RotatingOptions {
  std::string path;
  std::string header = {};     // the first line of each file
  std::uint64_t max_size = 0;  // 0: no limit
  seconds max_age{0};          // 0: no limit
};

class RotatingFile {
 public:
  static Result<RotatingFile> open(RotatingOptions options, WallTime now);
  /// Whole lines. A file that is too large or too old then is renamed before.
  Result<void> append(std::string_view lines, WallTime now);
  /// Somebody else may have renamed or removed the file: then a new one is begun.
  Result<void> reopen_if_moved(WallTime now);
  /// Why the file could not be renamed, once: it is tried again each minute, and said again when it went well
  /// meanwhile.
  std::optional<Error> take_trouble() { return std::exchange(trouble_, std::nullopt); }
  /// Whether a file was renamed since the last call: tidy() has something to do.
  bool take_renamed() { return std::exchange(renamed_, false); }
  const std::string& path() const { return options_.path; }

 private:
  explicit RotatingFile(RotatingOptions options) : options_(std::move(options)) {}
  Result<void> begin(WallTime now);
  Result<void> rotate(WallTime now);
  /// All of it, or nothing.
  Result<void> put(std::string_view bytes);
  /// Ends the file with a whole line.
  Result<void> mend_end();
  bool due(std::size_t more, WallTime now) const;

  RotatingOptions options_;
  Fd fd_;
  std::uint64_t size_ = 0, inode_ = 0;
  WallTime begun_{};
  bool renamed_ = false;
  bool torn_ = false;  // its last line is, and could not be taken back
  std::optional<Error> trouble_;
  WallTime not_before_{};  // the next attempt to rename it
};

/// Compresses the renamed files of this path, and removes all but the newest `keep` (0: keeps all). It blocks.
Result<void> tidy(const std::string& path, bool compress, std::size_t keep);

}  // namespace pen::penevents
