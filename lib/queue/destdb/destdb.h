#pragma once
/// The destination database on disk: what is known about destinations survives a restart.
///
/// The working set is in memory (a MemoryTable: the scheduler never waits). Changes gather and are written in one LMDB
/// transaction by a caller of write() on another thread.
///
/// Use:     auto db = DestDb::open(data_directory + "/destdb", wall_now);  // a damaged file is set aside: warning()
///          scheduler uses it as a Table;
///          auto changes = db->take_changes();
///          pool.run([changes, file = db->file()] { return file->write(changes); });
///          db->collect_some(wall_now, 1000);                              // now and then: forgets stale records
/// Rules:   all content is hints, except suspensions: an order to suspend is carried out only when write() has
///          returned. A kill loses only the changes since the last write(): LMDB's transactions are synced.
/// Bounds:  kMaxRecords in memory and on disk; a new record then replaces the least recently changed of a few.
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
#include "lib/queue/destdb/facts.h"

namespace pen::destdb {

/// A record to write or, without a value, to remove.
struct Change {
  enum class Kind : std::uint8_t { facts, suspension, note, learned } kind = Kind::facts;
  std::string key;  // of the facts, of the note, of what was learned; of a suspension: its name
  std::optional<Facts> facts;
  std::optional<Suspension> suspension;
  std::optional<std::string> note = std::nullopt;
  std::optional<shaping::Learned> learned = std::nullopt;
};
struct Contents {
  std::vector<std::pair<std::string, Facts>> facts;
  std::vector<Suspension> suspensions;
  std::vector<std::pair<std::string, std::string>> notes;
  std::vector<std::pair<std::string, shaping::Learned>> learned;
};

/// The storage. Thread: one thread at a time calls write(), and not at the same time as load().
class File {
 public:
  virtual ~File() = default;
  virtual Result<Contents> load() = 0;
  virtual Result<void> write(const std::vector<Change>& changes) = 0;
};
/// An LMDB file in a directory, which is made if it is missing. Errors: damaged, errno.
Result<std::shared_ptr<File>> open_lmdb(const std::string& directory);

/// Reads the file for a tool while its owner may be writing. The slices are in the order of the keys; each is a
/// transaction of its own, so that a slow reader never keeps pages from being reused. Thread: the caller's, only one.
class Reader {
 public:
  virtual ~Reader() = default;
  /// At most `most` records after those of the last call; done() when there are no more. The last slice has the
  /// suspensions.
  virtual Result<Contents> next(std::size_t most) = 0;
  virtual bool done() const = 0;
};
/// quiet: no process writes the file, so it can be checked for damage first (a reader trusts what it maps). Errors:
/// errno (ENOENT: there is no file yet; EACCES: it belongs to mail_owner), damaged.
Result<std::unique_ptr<Reader>> open_reader(const std::string& directory, bool quiet);

class DestDb final : public MemoryTable {
 public:
  static constexpr std::size_t kMaxRecords = 1'000'000;  // a few hundred bytes each
  static constexpr std::size_t kMaxLearned = 100'000;    // limits of providers, and of senders at them

  /// Errors: the directory cannot be made or written.
  static Result<std::unique_ptr<DestDb>> open(const std::string& directory, WallTime now);
  /// Opens the database over any storage, with the content that load() returns.
  static Result<std::unique_ptr<DestDb>> over(std::shared_ptr<File> file, WallTime now);

  void put(std::string_view key, const Facts& facts) override;
  void suspend(Suspension s) override;
  bool resume(std::string_view name) override;
  /// Values that others keep here, under keys of theirs of at most 500 bytes; nullopt: it goes. Never collected.
  void note(const std::string& key, std::optional<std::string> value);
  const std::map<std::string, std::string>& notes() const { return notes_; }
  void put_learned(std::string_view key, const shaping::Learned& learned) override;
  void forget_learned(std::string_view key) override;
  /// True: the record existed.
  bool forget(std::string_view key);
  /// The keys whose facts fit, in order. Visits all records.
  template <class Fits>
  std::vector<std::string> keys_if(Fits&& fits) const {
    std::vector<std::string> out;
    for (const auto& [key, f] : facts_)
      if (fits(f)) out.push_back(key);
    std::sort(out.begin(), out.end());
    return out;
  }
  /// The changes since the last call, at most `most`; changed() says whether there are more.
  std::vector<Change> take_changes(std::size_t most = SIZE_MAX);
  /// The changes of these notes alone, which are not with the next ones then.
  std::vector<Change> take_notes(const std::vector<std::string>& keys);
  /// For changes that could not be written: take_changes() will return these keys again, with their values by then.
  void put_back(const std::vector<Change>& changes);
  bool changed() const { return changes() > 0; }
  std::size_t changes() const {
    return changed_.size() + changed_suspensions_.size() + changed_notes_.size() + changed_learned_.size();
  }
  /// Removes stale records: destinations not used for kKeptFor, failures whose retry time was kKeptFailing ago; and
  /// the longest unused beyond kMaxRecords. Returns how many. Visits all records: for the start.
  std::size_t collect(WallTime now);
  /// Applies the same rules to the next `most` places of the table, in turn, so that a call is short however many
  /// records there are. Returns the removed keys: holders of copies must forget them too (Scheduler::forgotten).
  std::vector<std::string> collect_some(WallTime now, std::size_t most);
  std::size_t places() const { return facts_.bucket_count(); }
  /// For tests: a bound other than kMaxRecords.
  void limit_records(std::size_t most) { max_records_ = most; }
  const std::shared_ptr<File>& file() const { return file_; }
  /// A problem that open() found and repaired; empty: none.
  const std::string& warning() const { return warning_; }

  static constexpr std::chrono::hours kKeptFor{24 * 7};
  static constexpr std::chrono::hours kKeptFailing{24};
  static constexpr std::chrono::hours kKeptLearned{24 * 366};  // the longest shaping_forget_time

 private:
  std::shared_ptr<File> file_;
  Change note_as_it_is(const std::string& key) const;
  static bool stale(const Facts& f, WallTime now);
  void make_room();
  static bool stale(const shaping::Learned& l, WallTime now);
  std::unordered_set<std::string> changed_, changed_suspensions_, changed_notes_, changed_learned_;
  std::map<std::string, std::string> notes_;
  std::size_t max_records_ = kMaxRecords;
  std::size_t place_ = 0;  // of collect_some()
  std::string warning_;
};

}  // namespace pen::destdb
