#include "lib/base/lmdb/database.h"

#include <fcntl.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "lib/base/fd.h"

namespace pen::lmdb {
namespace {

/// liblmdb's own codes are negative; positive ones are errno.
std::unexpected<Error> failure(int code, const std::string& path) {
  if (code > 0) return fail_errno(path, code);
  DatabaseError kind = DatabaseError::failed;
  switch (code) {
    case MDB_INVALID:
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_VERSION_MISMATCH:
    case MDB_PANIC:
    case MDB_INCOMPATIBLE:
      kind = DatabaseError::damaged;
      break;
    case MDB_MAP_FULL:
    case MDB_TXN_FULL:
      kind = DatabaseError::full;
      break;
    default:
      break;
  }
  return fail(kind, path + ": " + ::mdb_strerror(code));
}

Result<void> outcome(int code, const std::string& path) {
  if (code != 0) return failure(code, path);
  return {};
}

MDB_val val(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }
std::string_view view(const MDB_val& v) { return {static_cast<const char*>(v.mv_data), v.mv_size}; }

unsigned flags_of(const Options& o) {
  unsigned flags = MDB_NOTLS;  // transactions belong to objects, not to threads
  if (!o.directory) flags |= MDB_NOSUBDIR;
  if (!o.lock) flags |= MDB_NOLOCK;
  if (!o.write) flags |= MDB_RDONLY;
  if (!o.sync) flags |= MDB_NOSYNC;
  return flags;
}

/// The library lengthens a lock file that is shorter than its table of readers by a call that may shorten as well, and
/// that confined programs do not have. One that is long enough already it leaves as it is, and fills it anew where
/// nobody else has it open.
void make_lock_file(const std::string& path, const Options& options) {
  if (!options.lock) return;
  constexpr off_t kBytes = 16384;  // of 126 readers in 64 bytes each, and a head
  const std::string name = path + (options.directory ? "/lock.mdb" : "-lock");
  struct stat st{};
  const bool found = ::stat(name.c_str(), &st) == 0;
  const bool is_short = found ? S_ISREG(st.st_mode) && st.st_size < kBytes : options.write;
  if (!is_short) return;  // closing one that is in use would let go of this process's locks
  const Fd fd(::open(name.c_str(), O_RDWR | (options.write ? O_CREAT : 0) | O_CLOEXEC, options.mode));
  if (fd) (void)!::pwrite(fd.get(), "", 1, kBytes - 1);  // what goes wrong here the library says better
}

}  // namespace

std::string_view error_module(DatabaseError) { return "lmdb"; }
std::string_view describe(DatabaseError e) {
  switch (e) {
    case DatabaseError::damaged:
      return "damaged file";
    case DatabaseError::full:
      return "file is full";
    case DatabaseError::failed:
      return "input/output error";
  }
  return "unknown";
}

Result<std::unique_ptr<Database>> Database::open(const std::string& path, const Options& options) {
  MDB_env* env = nullptr;
  PEN_TRY(outcome(::mdb_env_create(&env), path));
  std::unique_ptr<Database> database(new Database(path, env));
  if (options.map_size != 0) PEN_TRY(outcome(::mdb_env_set_mapsize(env, options.map_size), path));
  make_lock_file(path, options);
  PEN_TRY(outcome(::mdb_env_open(env, path.c_str(), flags_of(options), options.mode), path));
  MDB_txn* txn = nullptr;
  PEN_TRY(outcome(::mdb_txn_begin(env, nullptr, options.write ? 0U : MDB_RDONLY, &txn), path));
  if (const int code = ::mdb_dbi_open(txn, nullptr, 0, &database->table_); code != 0) {
    ::mdb_txn_abort(txn);
    return failure(code, path);
  }
  PEN_TRY(outcome(::mdb_txn_commit(txn), path));
  return database;
}

Result<void> Database::copy_to(int fd) const { return outcome(::mdb_env_copyfd(env_, fd), "copy " + path_); }

Database::~Database() { ::mdb_env_close(env_); }

void Database::forget_dead_readers() const { ::mdb_reader_check(env_, nullptr); }

Result<MDB_txn*> Read::started(const Database& database, bool write) {
  MDB_txn* txn = nullptr;
  PEN_TRY(outcome(::mdb_txn_begin(database.env_, nullptr, write ? 0U : MDB_RDONLY, &txn), database.path_));
  return txn;
}

Result<Read> Read::begin(const Database& database) {
  PEN_TRY_ASSIGN(MDB_txn * txn, started(database, false));
  return Read(database, txn);
}

Read::Read(Read&& other) noexcept
    : database_(other.database_), transaction_(std::exchange(other.transaction_, nullptr)) {}

Read::~Read() {
  if (transaction_ != nullptr) ::mdb_txn_abort(transaction_);
}

Result<std::optional<std::string_view>> Read::get(std::string_view key) const {
  MDB_val k = val(key), v{};
  const int code = ::mdb_get(transaction_, database_->table_, &k, &v);
  if (code == MDB_NOTFOUND) return std::nullopt;
  PEN_TRY(outcome(code, database_->path_));
  return view(v);
}

Result<bool> Read::each(std::string_view from,
                        const std::function<bool(std::string_view key, std::string_view value)>& visit) const {
  MDB_cursor* raw = nullptr;
  PEN_TRY(outcome(::mdb_cursor_open(transaction_, database_->table_, &raw), database_->path_));
  const std::unique_ptr<MDB_cursor, decltype(&::mdb_cursor_close)> cursor(raw, &::mdb_cursor_close);
  MDB_val k = val(from), v{};
  int code = ::mdb_cursor_get(raw, &k, &v, from.empty() ? MDB_FIRST : MDB_SET_RANGE);
  for (; code == 0; code = ::mdb_cursor_get(raw, &k, &v, MDB_NEXT))
    if (!visit(view(k), view(v))) return false;
  if (code == MDB_NOTFOUND) return true;
  return failure(code, database_->path_);
}

Result<Write> Write::begin(const Database& database) {
  PEN_TRY_ASSIGN(MDB_txn * txn, started(database, true));
  return Write(database, txn);
}

Result<void> Write::put(std::string_view key, std::string_view value) {
  MDB_val k = val(key), v = val(value);
  return outcome(::mdb_put(transaction_, database_->table_, &k, &v, 0), database_->path_);
}

Result<void> Write::erase(std::string_view key) {
  MDB_val k = val(key);
  const int code = ::mdb_del(transaction_, database_->table_, &k, nullptr);
  return outcome(code == MDB_NOTFOUND ? 0 : code, database_->path_);
}

Result<void> Write::commit() {
  return outcome(::mdb_txn_commit(std::exchange(transaction_, nullptr)), database_->path_);
}

}  // namespace pen::lmdb
