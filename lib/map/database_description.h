#pragma once
/// The newest version of a database table's description that can be read: a file, or parameters in main.cf.
///
/// Use:     Description description("mysql", "/etc/x.cf", options);  auto table = description.current();
/// Changes: the file is looked at once a second at most.
/// Errors:  of database_table.h and of reading the file. Thread: any.
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "lib/base/text.h"
#include "lib/map/database_table.h"
#include "lib/map/file_map.h"
#include "lib/map/notes.h"

namespace pen::map::database {

class Description {
 public:
  Description(std::string type, std::string name, OpenOptions options)
      : type_(std::move(type)), name_(std::move(name)), options_(std::move(options)) {}

  Result<std::shared_ptr<const Table>> current() {
    const std::lock_guard lock(mutex_);
    const SteadyTime now = options_.clock->now();
    if (table_ && now < next_check_) return *table_;
    next_check_ = now + seconds(1);
    if (!name_.starts_with('/') && !name_.starts_with('.')) {
      if (!table_) table_ = read_main_cf();
      return *table_;
    }
    auto stamp = file_stamp(name_);
    if (!stamp) {
      stamp_ = {};
      table_ = std::unexpected(std::move(stamp).error());
    } else if (!table_ || !*table_ || *stamp != stamp_) {
      stamp_ = *stamp;
      table_ = read_file();
      if (*table_) tell_notes(name_, stamp_, notes_of(***table_));
    }
    return *table_;
  }
  /// The owner of the file; root, who wrote main.cf; nullopt: there is no file.
  std::optional<std::uint32_t> owner() {
    const auto table = current();
    const std::lock_guard lock(mutex_);
    if (!table && stamp_.inode == 0) return std::nullopt;
    return stamp_.owner;
  }

 private:
  using Read = Result<std::shared_ptr<const Table>>;
  std::vector<std::string> notes_of(const Table& table) const {
    std::vector<std::string> notes;
    for (const std::string& note : table.notes) notes.push_back(name_ + ": " + note);
    return notes;
  }
  Read read_file() const {
    PEN_TRY_ASSIGN(const std::string text, read_table_file(name_));
    PEN_TRY_ASSIGN(auto table, read_table(type_, text, name_, options_));
    return std::shared_ptr<const Table>(std::move(table));
  }
  Read read_main_cf() const {
    const auto& main_cf = database::main_cf();
    if (!main_cf)
      return fail(MapError::bad_spec, type_ + ":" + printable(name_, 100) + ": expected the path of a file");
    PEN_TRY_ASSIGN(auto table, table_of_main_cf(type_, name_, main_cf, options_));
    return std::shared_ptr<const Table>(std::move(table));
  }

  std::string type_, name_;
  OpenOptions options_;
  std::mutex mutex_;
  SteadyTime next_check_{};
  FileStamp stamp_;
  std::optional<Read> table_;
};

}  // namespace pen::map::database
