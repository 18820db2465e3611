#pragma once
/// What all tables read from a file share: reading it, noticing changes at most once a second, giving errors while it
/// is broken, telling which lines are passed over (of a Table that has notes()).
///
/// Use:     Reloading<Table> file(path, clock, load_table);   // Result<std::shared_ptr<Table>> load_table(path)
///          auto table = file.current();                       // the table as of now, or why it cannot be read
/// Thread:  any: a table is immutable once it is read, and is replaced as a whole.
#include <sys/stat.h>

#include <expected>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "lib/map/map.h"
#include "lib/map/notes.h"

namespace pen::map {

/// The facts that distinguish one version of a file from another.
struct FileStamp {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t modified = 0, changed = 0;  // ns
  std::uint32_t owner = 0;                 // user id
  bool operator==(const FileStamp&) const = default;
};
Result<FileStamp> file_stamp(const std::string& path);
/// Reads the whole file, at most kMaxFile bytes. Errors: unreadable, too_large.
Result<std::string> read_table_file(const std::string& path);
/// The same for an open file, from its current position; path is used in errors.
Result<std::string> read_table_file(int fd, const std::string& path);

/// Holds the newest version of an object made from a file.
template <class Table>
class Reloading {
 public:
  using Load = Result<std::shared_ptr<Table>> (*)(const std::string& path);
  Reloading(std::string path, const Clock& clock, Load load) : path_(std::move(path)), clock_(clock), load_(load) {}

  /// The file's owner as of the last current(); nullopt: the file is not there.
  std::optional<std::uint32_t> owner() {
    std::lock_guard lock(mutex_);
    if (!loaded_ || stamp_.inode == 0) return std::nullopt;
    return stamp_.owner;
  }

  Result<std::shared_ptr<Table>> current() {
    std::unique_lock lock(mutex_);
    const SteadyTime now = clock_.now();
    if (loaded_ && now < next_check_) return table_;
    next_check_ = now + seconds(1);
    auto stamp = file_stamp(path_);
    if (!stamp) {
      loaded_ = true;
      stamp_ = {};
      table_ = std::unexpected(std::move(stamp).error());
    } else if (!loaded_ || *stamp != stamp_ || !table_) {
      loaded_ = true;
      stamp_ = *stamp;
      table_ = load_(path_);
      if constexpr (requires(const Table& t) { t.notes(); }) {
        if (table_) {
          const auto table = *table_;
          const FileStamp version = stamp_;
          lock.unlock();
          tell_notes(path_, version, table->notes());
          return table;
        }
      }
    }
    return table_;
  }

 private:
  std::mutex mutex_;
  std::string path_;
  const Clock& clock_;
  Load load_;
  SteadyTime next_check_{};
  FileStamp stamp_;
  bool loaded_ = false;
  Result<std::shared_ptr<Table>> table_ = std::shared_ptr<Table>();
};

}  // namespace pen::map
