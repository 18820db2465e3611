#pragma once
/// A file of hints: one unnamed LMDB database in a directory of its own, that may be lost at any time.
///
/// Use:     auto file = File::open(directory, map_size);
///          Transaction t(*file, Transaction::write);
///          if (t.begun() != 0) return file->error(t.begun());
///          … mdb_put(t.get(), file->dbi(), …) …; t.commit()
///          open_or_begin_anew(directory, cost, warning, open)      // what the program does at its start
/// Damage:  is found by looking through the pages before liblmdb maps them: it believes what it maps, and would end the
///          process at the first touch. So nobody may write while another process opens the file.
/// Used by: destdb, the MTA-STS policies, the results for TLS reports.
/// Thread:  any, as LMDB's environments; a transaction belongs to one thread. All but reads may wait for the disk.
#include <lmdb.h>

#include <memory>
#include <string>

#include "lib/base/result.h"

namespace pen::hints {

enum class FileError { damaged = 1, failed };
std::string_view error_module(FileError);
std::string_view describe(FileError);

/// FileError or errno of what liblmdb returned; what: the file.
std::unexpected<Error> lmdb_error(int code, const std::string& what);

class File {
 public:
  enum class Check : bool { no, yes };

  /// Makes what is missing. map_size: address space in bytes, the most the file can grow to. Errors: FileError, errno.
  static Result<std::unique_ptr<File>> open(const std::string& directory, std::size_t map_size);
  /// One that exists, for a tool. check: only when nobody writes. Errors: as open().
  static Result<std::unique_ptr<File>> open_to_read(const std::string& directory,
                                                    std::size_t map_size, Check check);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  MDB_env* env() const { return env_; }
  MDB_dbi dbi() const { return dbi_; }
  std::unexpected<Error> error(int code) const { return lmdb_error(code, directory_); }
  /// Frees what a process that was killed while it read keeps from being used again.
  void forget_dead_readers() const { ::mdb_reader_check(env_, nullptr); }

 private:
  explicit File(std::string directory) : directory_(std::move(directory)) {}
  Result<void> map(std::size_t map_size, unsigned flags);

  std::string directory_;
  MDB_env* env_ = nullptr;
  MDB_dbi dbi_ = 0;
};

/// Ends with the object, without effect unless commit() was called.
class Transaction {
 public:
  enum Kind : bool { read, write };
  Transaction(const File& file, Kind kind);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  /// 0, or liblmdb's code why there is none.
  int begun() const { return begun_; }
  MDB_txn* get() const { return txn_; }
  [[nodiscard]] int commit() { return ::mdb_txn_commit(std::exchange(txn_, nullptr)); }

 private:
  MDB_txn* txn_ = nullptr;
  int begun_ = 0;
};

/// text must outlive the value.
inline MDB_val val(std::string& text) { return {text.size(), text.data()}; }
inline std::string_view view(const MDB_val& v) {
  return {static_cast<const char*>(v.mv_data), v.mv_size};
}

/// Renames the directory to DIRECTORY.damaged, in place of one from before. Returns the new name.
Result<std::string> set_aside(const std::string& directory);

/// open(); what is damaged is set aside for whoever wants to look, and begun anew by a second open(): only hints are lost.
/// warning: then what happened, ending with cost.
template <class Open>
auto open_or_begin_anew(const std::string& directory, std::string_view cost, std::string& warning,
                        Open open) -> decltype(open()) {
  auto opened = open();
  if (opened || !opened.error().is(FileError::damaged)) return opened;
  const std::string why = opened.error().message();
  PEN_TRY_ASSIGN(const std::string aside, set_aside(directory));
  opened = open();
  if (opened) warning = why + "; set aside as " + aside + "; " + std::string(cost);
  return opened;
}

}  // namespace pen::hints
