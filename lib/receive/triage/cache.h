#pragma once
/// The clients that passed, of one process. No I/O, no clock.
///
/// Use:     Cache cache;  cache.take(key, value, now) for each stored record;
///          cache.find(key);  cache.put(key, record);
///          cache.take_changes(most) are to be written;  cache.drop_old(now, retention) now and then.
/// Bounds:  kMost clients. A full cache drops an eighth of them, those with the passes that run out first: they are
///          tested again.
/// Thread:  any, one at a time.
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lib/base/time.h"
#include "lib/receive/triage/record.h"
#include "lib/suite/remembered/table.h"

namespace pen::triage {

class Cache final : public remembered::Table {
 public:
  static constexpr std::size_t kMost = 500'000;  // about 100 MB
  explicit Cache(std::size_t most = kMost) : most_(most) {}

  std::optional<Record> find(const std::string& key) const;
  void put(const std::string& key, const Record& record);
  /// A stored record. One that cannot be read is to be removed from the file; what this process learnt itself counts
  /// first.
  void take(std::string_view key, std::string_view value) override;
  std::vector<lmdb::Change> take_changes(std::size_t most) override;
  bool changed() const override { return !changed_.empty(); }
  struct Dropped {
    std::size_t dropped = 0, kept = 0;
  };
  /// Drops clients when their last pass ran out longer ago than retention. Takes some 50 ms for a full cache.
  Dropped drop_old(WallTime now, seconds retention);
  std::size_t size() const { return records_.size(); }

 private:
  void make_room();
  std::size_t most_;
  std::unordered_map<std::string, Record> records_;
  std::unordered_set<std::string> changed_;
};

}  // namespace pen::triage
