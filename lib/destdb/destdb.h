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
///          db->collect_some(wall_now, 1000);                              // now and then: forgets stale records
/// Rules:   hints, but for suspensions, whose order is done when write() is back. A kill loses the changes since the
///          last write(), nothing else: LMDB's transactions are synced.
/// Bounds:  kMaxRecords in memory and on disk; for a new one the least recently changed of a few goes.
/// Source:  docs/origins.md "The scheduler" (destdb, its garbage collector), docs/design.md.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "lib/base/result.h"
#include "lib/destdb/facts.h"

namespace pen::destdb {

/// One record to write; without a value: to remove.
struct Change {
  enum class Kind : std::uint8_t { facts, suspension } kind = Kind::facts;
  std::string key;  // of facts; of a suspension its name
  std::optional<Facts> facts;
  std::optional<Suspension> suspension;
};
struct Contents {
  std::vector<std::pair<std::string, Facts>> facts;
  std::vector<Suspension> suspensions;
};

/// Storage. Thread: write() by one thread at a time, not at the same time as load().
class File {
 public:
  virtual ~File() = default;
  virtual Result<Contents> load() = 0;
  virtual Result<void> write(const std::vector<Change>& changes) = 0;
};
/// LMDB in a directory, made if missing. Errors: damaged, errno.
Result<std::shared_ptr<File>> open_lmdb(const std::string& directory);

/// The file read by a tool while its owner may be writing it: slices in the order of the keys, each a read of its
/// own, so that a slow reader never keeps pages from being used again. Thread: the caller's one.
class Reader {
 public:
  virtual ~Reader() = default;
  /// At most `most` records after those of the last call; done() when there are no more. Suspensions come with the
  /// last.
  virtual Result<Contents> next(std::size_t most) = 0;
  virtual bool done() const = 0;
};
/// quiet: nobody writes it, so it can be checked for damage first (a reader believes what it maps).
/// Errors: errno (ENOENT: there is none yet; EACCES: it is the mail owner's), damaged.
Result<std::unique_ptr<Reader>> open_reader(const std::string& directory, bool quiet);

class DestDb final : public MemoryTable {
 public:
  static constexpr std::size_t kMaxRecords = 1'000'000;  // a few hundred bytes each

  /// Errors: the directory cannot be made or written at all.
  static Result<std::unique_ptr<DestDb>> open(const std::string& directory, WallTime now);
  /// Over any storage; what load() gives is taken in.
  static Result<std::unique_ptr<DestDb>> over(std::shared_ptr<File> file, WallTime now);

  void put(std::string_view key, const Facts& facts) override;
  void suspend(Suspension s) override;
  bool resume(std::string_view name) override;
  /// True when it was there.
  bool forget(std::string_view key);
  /// Keys whose facts fit, in order. Walks over all.
  template <class Fits>
  std::vector<std::string> keys_if(Fits&& fits) const {
    std::vector<std::string> out;
    for (const auto& [key, f] : facts_)
      if (fits(f)) out.push_back(key);
    std::sort(out.begin(), out.end());
    return out;
  }
  /// Changes since the last call, at most `most`; changed() tells whether there are more.
  std::vector<Change> take_changes(std::size_t most = SIZE_MAX);
  /// They could not be written: what these keys hold by then is taken again.
  void put_back(const std::vector<Change>& changes);
  bool changed() const { return changes() > 0; }
  std::size_t changes() const { return changed_.size() + changed_suspensions_.size(); }
  /// Forgets what is stale: destinations not used for kKeptFor, failures whose retry time is kKeptFailing past; and the
  /// longest unused beyond kMaxRecords.
  /// Returns how many. Walks over all: for the start.
  std::size_t collect(WallTime now);
  /// The same rules for the next `most` places of the table, in turn: short however many records there are. Returns
  /// the keys: who keeps a copy of the facts forgets it too (Scheduler::forgotten).
  std::vector<std::string> collect_some(WallTime now, std::size_t most);
  std::size_t places() const { return facts_.bucket_count(); }
  /// For tests: another bound than kMaxRecords.
  void limit_records(std::size_t most) { max_records_ = most; }
  const std::shared_ptr<File>& file() const { return file_; }
  /// What went wrong at open() and was repaired; empty: nothing.
  const std::string& warning() const { return warning_; }

  static constexpr std::chrono::hours kKeptFor{24 * 7};
  static constexpr std::chrono::hours kKeptFailing{24};

 private:
  std::shared_ptr<File> file_;
  static bool stale(const Facts& f, WallTime now);
  void make_room();
  std::unordered_set<std::string> changed_, changed_suspensions_;
  std::size_t max_records_ = kMaxRecords;
  std::size_t place_ = 0;  // of collect_some()
  std::string warning_;
};

}  // namespace pen::destdb
