#pragma once
/// The destination database on disk: what is known of destinations survives a restart.
///
/// The working set is in memory (a MemoryTable: the scheduler never waits); changes gather and are written in one
/// LMDB transaction by whoever calls write() on another thread.
///
/// Use:     auto db = DestDb::open(data_directory + "/destdb", wall_now);  // a damaged file is set aside: warning()
///          scheduler uses it as a Table;
///          auto changes = db->take_changes();
///          pool.run([changes, file = db->file()] { return file->write(changes); });
///          db->collect(wall_now);                                         // now and then: forgets stale records
/// Rules:   hints. A kill loses the changes since the last write(), nothing else: LMDB's transactions are synced.
/// Bounds:  kMaxRecords in memory and on disk; the least recently changed go first.
/// Source:  seed 000 (destdb, its garbage collector), design.md.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "lib/base/result.h"
#include "lib/destdb/facts.h"

namespace pen::destdb {

enum class DestDbError { damaged = 1, failed };
inline std::string_view error_module(DestDbError) { return "destdb"; }
inline std::string_view describe(DestDbError e) {
  return e == DestDbError::damaged ? "damaged file" : "input/output error";
}

/// One record to write; no facts: to remove.
struct Change {
  std::string key;
  std::optional<Facts> facts;
};

/// Storage. Thread: write() by one thread at a time, not at the same time as load().
class File {
 public:
  virtual ~File() = default;
  virtual Result<std::vector<std::pair<std::string, Facts>>> load() = 0;
  virtual Result<void> write(const std::vector<Change>& changes) = 0;
};
/// LMDB in a directory, made if missing. Errors: damaged, errno.
Result<std::shared_ptr<File>> open_lmdb(const std::string& directory);

class DestDb final : public MemoryTable {
 public:
  static constexpr std::size_t kMaxRecords = 1'000'000;  // a few hundred bytes each

  /// Errors: the directory cannot be made or written at all.
  static Result<std::unique_ptr<DestDb>> open(const std::string& directory, WallTime now);
  /// Over any storage; what load() gives is taken in.
  static Result<std::unique_ptr<DestDb>> over(std::shared_ptr<File> file, WallTime now);

  void put(std::string_view key, const Facts& facts) override;
  /// True when it was there.
  bool forget(std::string_view key);
  /// Changes since the last call.
  std::vector<Change> take_changes();
  bool changed() const { return !changed_.empty(); }
  /// Forgets what is stale: destinations not used for kKeptFor, failures whose retry time is kKeptFailing past; and the
  /// longest unused beyond kMaxRecords.
  /// Returns how many.
  std::size_t collect(WallTime now);
  const std::shared_ptr<File>& file() const { return file_; }
  /// What went wrong at open() and was repaired; empty: nothing.
  const std::string& warning() const { return warning_; }

  static constexpr std::chrono::hours kKeptFor{24 * 7};
  static constexpr std::chrono::hours kKeptFailing{24};

 private:
  std::shared_ptr<File> file_;
  std::unordered_set<std::string> changed_;
  std::string warning_;
};

}  // namespace pen::destdb
