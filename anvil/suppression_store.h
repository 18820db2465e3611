#pragma once
/// The file of the suppression list: addresses in LMDB, looked up where they are, so that millions cost no memory of
/// the process and no time at a question.
///
/// Use:     auto store = SuppressionStore::open(directory, options);      // on a thread: it reads the whole file
///          auto record = store->find(key, now);
///          auto done = store->apply(changes, rules, now);                // one transaction; it returns when on disk
/// Bounds:  `limit` addresses on the list: further ones are refused. A quarter as many are watched: a new one takes the
///          place of another, for strangers can make some by forged notices, and must not keep out the rest. For the
///          same reason half of the list is the most that strangers' notices and reports fill.
/// Shared:  one process has the file (lib/base/lmdb/hint_store.h says how it is handed over at a reload).
/// Damage:  the file is set aside and begun anew; warning() says so.
/// Errors:  EWOULDBLOCK: another process has it; errno; DatabaseError.
/// Thread:  find() and list() any; apply() and collect() one at a time.
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "anvil/suppression_record.h"
#include "lib/base/lmdb/hint_store.h"
#include "lib/base/result.h"

namespace pen::anvil {

class SuppressionStore {
 public:
  struct Options {
    std::size_t limit = 1'000'000;
    bool keeps_removals = false;  // in a cluster
  };
  static Result<std::shared_ptr<SuppressionStore>> open(const std::string& directory, const Options& options);

  /// nullopt: nothing is known of it, or no more.
  Result<std::optional<SuppressionRecord>> find(std::string_view key, WallTime now) const;

  /// What another host knows.
  struct Heard {
    std::string key;
    SuppressionRecord record;
  };
  using Change = std::variant<ipc::suppression::Failure, ipc::suppression::Add, ipc::suppression::Remove, Heard>;
  struct Outcome {
    std::string key;
    std::optional<SuppressionRecord> record = {};  // as it is stored now; nullopt: it did not change
    bool known = false;                            // it was on the list before
    bool added = false;                            // a failure has brought it onto the list
    std::string error = {};                        // why an order was not obeyed
    bool full = false;
    bool strangers = false;  // full of what strangers say; there is room for the rest
  };
  Result<std::vector<Outcome>> apply(const std::vector<Change>& changes, const SuppressionRules& rules, WallTime now);

  struct Page {
    std::vector<ipc::suppression::Entry> entries;
    std::string after;  // the last key that was looked at
    bool more = false;
  };
  /// Entries behind the key, at most `most`, and at most kLooked records.
  Result<Page> list(std::string_view after, bool watched, std::size_t most, WallTime now) const;
  static constexpr std::size_t kLooked = 20'000;

  /// Removes what has expired among the next `most` records. Returns how many.
  Result<std::size_t> collect(std::size_t most, WallTime now);

  std::size_t listed() const { return listed_; }
  std::size_t watched() const { return watched_; }
  const std::string& warning() const { return file_->warning(); }

 private:
  SuppressionStore(std::shared_ptr<lmdb::HintStore> file, Options options)
      : file_(std::move(file)), options_(options) {}
  struct Counts {
    std::size_t listed = 0, watched = 0, strangers = 0;  // strangers: of the listed ones
    /// No record: nothing.
    void add(const std::optional<SuppressionRecord>& record, std::size_t by = 1);
  };
  bool full(const Counts& counts, const SuppressionRecord& next) const;
  void count(const Counts& counts);
  class Batch;

  std::shared_ptr<lmdb::HintStore> file_;
  Options options_;
  std::atomic<std::size_t> listed_ = 0, watched_ = 0;
  std::size_t strangers_ = 0;  // of apply() and collect()
  std::string hand_;           // of collect(): where it goes on
};

}  // namespace pen::anvil
