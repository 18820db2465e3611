#pragma once
/// What has gathered, on disk: an LMDB file below data_directory, so that a crash costs the last seconds and not the
/// day.
///
/// Use:     auto store = Store::open(directory);          // a damaged one is set aside: warning()
///          for (auto& day : store->load()) gathering.restore(day);
///          store->write(gathering.take_changes());        // one transaction, synced
/// Rules:   hints. A record that cannot be read is left out.
/// Thread:  one at a time; write() may block.
#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "tlsrpt/gather.h"

namespace pen::lmdb {
class Database;
}

namespace pen::tlsrpt {

class Store {
 public:
  /// Made if missing. Errors: it cannot be made or opened at all.
  static Result<std::shared_ptr<Store>> open(const std::string& directory);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  Result<std::vector<DomainDay>> load();
  Result<void> write(const std::vector<Change>& changes);
  /// What happened to a damaged file, for the log; empty: nothing.
  const std::string& warning() const { return warning_; }

 private:
  explicit Store(std::unique_ptr<lmdb::Database> database);
  std::unique_ptr<lmdb::Database> database_;
  std::string warning_;
};

}  // namespace pen::tlsrpt
