/// The tables mysql:, pgsql:, sqlite: and ldap:, each a file that names a database and a question.
#include <algorithm>

#include "lib/base/text.h"
#include "lib/map/database_modules.h"
#include "lib/map/database_pool.h"
#include "lib/map/database_table.h"
#include "lib/map/file_map.h"
#include "lib/map/source.h"
#include "lib/map/types.h"
#include "lib/map/utf8.h"

namespace pen::map {
namespace {

using database::Table;

/// Where the table is described; the newest version that can be read.
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
    }
    return *table_;
  }
  /// Of the file; root, who wrote main.cf; nullopt: there is no file.
  std::optional<std::uint32_t> owner() {
    const auto table = current();
    const std::lock_guard lock(mutex_);
    if (!table && stamp_.inode == 0) return std::nullopt;
    return stamp_.owner;
  }

 private:
  using Read = Result<std::shared_ptr<const Table>>;
  Read read_file() const {
    PEN_TRY_ASSIGN(const std::string text, read_table_file(name_));
    PEN_TRY_ASSIGN(auto table, database::read_table(type_, text, name_, options_));
    return std::shared_ptr<const Table>(std::move(table));
  }
  Read read_main_cf() const {
    const auto& main_cf = database::main_cf();
    if (!main_cf)
      return fail(MapError::bad_spec, type_ + ":" + printable(name_, 100) + ": expected the path of a file");
    PEN_TRY_ASSIGN(auto table, database::table_of_main_cf(type_, name_, main_cf, options_));
    return std::shared_ptr<const Table>(std::move(table));
  }

  std::string type_, name_;
  OpenOptions options_;
  std::mutex mutex_;
  SteadyTime next_check_{};
  FileStamp stamp_;
  std::optional<Read> table_;
};

class DatabaseSource final : public PooledSource {
 public:
  DatabaseSource(std::string name, std::shared_ptr<Description> description)
      : PooledSource(std::move(name)), description_(std::move(description)) {}
  std::string lane() const override {
    const auto table = description_->current();
    return table ? (*table)->pool : name();
  }
  std::size_t lane_width() const override { return database::Pools::of_process().limits().per_pool; }
  Value ask(const std::string& key, SteadyTime since) const override {
    PEN_TRY_ASSIGN(const auto table, description_->current());
    if (!table->needs.met_by(KeyParts(key))) return std::nullopt;  // the file has changed since
    return database::Pools::of_process().look_up(*table, key, since);
  }

 private:
  std::shared_ptr<Description> description_;
};

class DatabaseMap final : public Map {
 public:
  DatabaseMap(std::string spec, const std::string& type, const std::string& name, const OpenOptions& options)
      : Map(std::move(spec)),
        type_(type),
        fold_(options.fold_keys),
        description_(std::make_shared<Description>(type, name, options)),
        source_(std::make_shared<DatabaseSource>(type + ":" + name, description_)) {}
  bool blocking() const override { return true; }
  Value lookup(std::string_view key) override {
    if (key.size() > kMaxKey || !is_utf8(key)) return std::nullopt;
    PEN_TRY_ASSIGN(const auto table, description_->current());
    const std::string folded = fold_ ? to_lower(key) : std::string(key);
    PEN_TRY_ASSIGN(const bool asks, table->asks_for(folded));
    if (!asks) return std::nullopt;
    return answer_from(source_, folded);
  }
  std::optional<Error> problem() override {
    if (const auto table = description_->current(); !table) return table.error();
    if (const auto driver = database::find_driver(type_); !driver) return driver.error();
    return std::nullopt;
  }
  std::vector<std::string> notes() override {
    const auto table = description_->current();
    return table ? (*table)->notes : std::vector<std::string>();
  }
  std::optional<std::uint32_t> owner() override { return description_->owner(); }

 private:
  std::string type_;
  bool fold_;
  std::shared_ptr<Description> description_;
  std::shared_ptr<const Source> source_;
};

}  // namespace

std::shared_ptr<Map> make_database(std::string spec, const std::string& type, const std::string& name,
                                   const OpenOptions& options) {
  return std::make_shared<DatabaseMap>(std::move(spec), type, name, options);
}

}  // namespace pen::map
