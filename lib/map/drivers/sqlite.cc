/// sqlite: tables. The database file is opened for reading only; the first column of each row is a value.
///
/// Quoting: '…' of a string literal: ' is doubled, as %q of SQLite's own formatter does.
/// Waiting: a query that runs too long is ended by a progress handler; a database that is locked is waited for.
#include <sqlite3.h>
#include <sys/stat.h>

#include "lib/map/drivers/module.h"

namespace pen::map::database {
namespace {

constexpr int kStepsBetweenLooks = 1000;  // of SQLite's virtual machine: some microseconds

bool quote(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (c == '\0') return false;  // it would end the statement
    if (c == '\'') out += '\'';
    out += c;
  }
  return true;
}

int is_over(void* deadline) { return system_clock().now() >= *static_cast<const SteadyTime*>(deadline) ? 1 : 0; }

class SqliteConnection final : public Connection {
 public:
  SqliteConnection(sqlite3* db, std::string path) : db_(db), path_(std::move(path)) { (void)is_replaced(); }
  ~SqliteConnection() override { sqlite3_close(db_); }
  SqliteConnection(const SqliteConnection&) = delete;
  SqliteConnection& operator=(const SqliteConnection&) = delete;

  Report ask(const Lookup& lookup) override {
    const auto sql = lookup.expand("query", quote);
    if (!sql) return {Outcome::refused, "the key cannot be quoted"};
    if (is_replaced()) return {Outcome::lost, "the file has been replaced"};
    deadline_ = lookup.deadline;
    sqlite3_busy_timeout(db_, left_until<milliseconds>(deadline_));
    sqlite3_progress_handler(db_, kStepsBetweenLooks, is_over, &deadline_);
    sqlite3_stmt* statement = nullptr;
    // Text behind the first statement is ignored.
    int code = sqlite3_prepare_v2(db_, sql->c_str(), static_cast<int>(sql->size()), &statement, nullptr);
    if (code == SQLITE_OK && statement == nullptr) return {Outcome::refused, "the query is empty"};
    while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
      code = SQLITE_OK;
      if (sqlite3_column_count(statement) == 0) continue;
      const auto* value = sqlite3_column_text(statement, 0);
      if (value == nullptr) {
        if (sqlite3_column_type(statement, 0) != SQLITE_NULL) code = SQLITE_NOMEM;
        continue;
      }
      const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, 0));
      if (!lookup.add({reinterpret_cast<const char*>(value), size})) break;
    }
    Report report;
    if (code != SQLITE_OK && code != SQLITE_DONE) report = trouble(code);
    sqlite3_finalize(statement);
    sqlite3_progress_handler(db_, 0, nullptr, nullptr);
    return report;
  }

 private:
  Report trouble(int code) const {
    if (code == SQLITE_INTERRUPT || code == SQLITE_BUSY || code == SQLITE_LOCKED)
      return {Outcome::timed_out, code == SQLITE_INTERRUPT ? "the query takes too long" : "the database is locked"};
    // The file may have been replaced: a new connection sees the new one.
    const bool file =
        code == SQLITE_CANTOPEN || code == SQLITE_IOERR || code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
    return {file ? Outcome::lost : Outcome::refused, sqlite3_errmsg(db_)};
  }

  /// Whether another file stands under the path than at the last call.
  bool is_replaced() {
    struct stat now{};
    const bool there = ::stat(path_.c_str(), &now) == 0;
    const bool same = there && now.st_dev == seen_.st_dev && now.st_ino == seen_.st_ino;
    seen_ = now;
    return !same;
  }

  sqlite3* db_;
  std::string path_;
  struct stat seen_{};
  SteadyTime deadline_{};
};

class SqliteDriver final : public Driver {
 public:
  std::unique_ptr<Connection> connect(const Settings&, const std::string& path, SteadyTime, Report& report) override {
    sqlite3* db = nullptr;
    if (sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_FULLMUTEX, nullptr) == SQLITE_OK) {
      sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
      sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
      sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
      return std::make_unique<SqliteConnection>(db, path);
    }
    report = {Outcome::lost, db == nullptr ? "no memory" : sqlite3_errmsg(db)};
    sqlite3_close(db);
    return nullptr;
  }
};

}  // namespace
}  // namespace pen::map::database

PEN_TABLE_DRIVER(pen::map::database::SqliteDriver)
