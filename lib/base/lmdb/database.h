#pragma once
/// An LMDB file with one unnamed database, and its transactions.
///
/// Use:     auto db = Database::open(path, {.map_size = 1 << 30});
///          PEN_TRY_ASSIGN(Write write, Write::begin(*db));
///          PEN_TRY(write.put("key", "value"));  PEN_TRY(write.commit());
///          PEN_TRY_ASSIGN(const Read read, Read::begin(*db));
///          PEN_TRY_ASSIGN(const auto value, read.get("key"));          // a view into the file
/// Views:   keys and values from a transaction are valid until it ends or, for a Write, until its next change.
/// Damage:  liblmdb trusts what it maps: check a file that may be damaged first (lib/base/lmdb/pages.h).
/// Errors:  DatabaseError or errno, with the file's path.
/// Thread:  a Database any; a transaction only one, and a thread has one at a time. Write::begin() waits for the
///          writer before.
#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

struct MDB_env;
struct MDB_txn;

namespace pen::lmdb {

enum class DatabaseError { damaged = 1, full, failed };
std::string_view error_module(DatabaseError);
std::string_view describe(DatabaseError);

struct Options {
  std::size_t map_size = 0;  // address space in bytes, the limit of the file's growth; 0: as it is
  bool directory = true;     // the path is a directory that holds data.mdb and lock.mdb
  bool lock = true;          // no: nobody writes the file while another process has it open
  bool write = true;
  bool sync = true;  // no: the writer syncs the file itself
  mode_t mode = 0600;
};

class Database {
 public:
  /// Opens the database; makes it if it does not exist and may be written.
  static Result<std::unique_ptr<Database>> open(const std::string& path, const Options& options);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// A copy of one moment, beside writers and readers, into an empty file: a database of one file, or data.mdb of one
  /// that is a directory.
  Result<void> copy_to(int fd) const;
  /// Frees pages that a killed reader process still claims.
  void forget_dead_readers() const;

 private:
  friend class Read;
  friend class Write;
  Database(std::string path, MDB_env* env) : path_(std::move(path)), env_(env) {}

  std::string path_;
  MDB_env* env_;
  unsigned table_ = 0;
};

/// The content of the database at one moment. The database must outlive this object.
class Read {
 public:
  static Result<Read> begin(const Database& database);
  Read(Read&& other) noexcept;
  ~Read();

  /// nullopt: there is no such key.
  Result<std::optional<std::string_view>> get(std::string_view key) const;
  /// Calls visit for each entry in the order of the keys, from the first key that is not below `from`, until it returns
  /// false. Returns true at the end of the database.
  Result<bool> each(std::string_view from,
                    const std::function<bool(std::string_view key, std::string_view value)>& visit) const;

 protected:
  Read(const Database& database, MDB_txn* transaction) : database_(&database), transaction_(transaction) {}
  static Result<MDB_txn*> started(const Database& database, bool write);

  const Database* database_;
  MDB_txn* transaction_;
};

/// A Read that can also make changes, which take effect only if commit() succeeds.
class Write : public Read {
 public:
  static Result<Write> begin(const Database& database);
  /// Keys of 1 to 511 bytes.
  Result<void> put(std::string_view key, std::string_view value);
  /// It is not an error if the key does not exist.
  Result<void> erase(std::string_view key);
  /// Returns when the changes are on disk, if the database syncs. Must be the last call.
  Result<void> commit();

 private:
  Write(const Database& database, MDB_txn* transaction) : Read(database, transaction) {}
};

}  // namespace pen::lmdb
