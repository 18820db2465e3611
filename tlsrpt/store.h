#pragma once
/// Keeps the gathered results in an LMDB file below data_directory, so that a crash loses seconds and not the day.
///
/// Use:     auto store = Store::open(directory);          // a damaged file is set aside: warning()
///          for (auto& day : store->load()) gathering.restore(day);
///          store->write(gathering.take_changes());        // one transaction, synced
/// Rules:   the data are hints: an unreadable record is left out.
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
  /// Creates the file if it is missing. Errors: it cannot be created or opened at all.
  static Result<std::shared_ptr<Store>> open(const std::string& directory);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  Result<std::vector<DomainDay>> load();
  Result<void> write(const std::vector<Change>& changes);
  /// What was done with a damaged file, for the log; empty: it was sound.
  const std::string& warning() const { return warning_; }

 private:
  explicit Store(std::unique_ptr<lmdb::Database> database);
  std::unique_ptr<lmdb::Database> database_;
  std::string warning_;
};

}  // namespace pen::tlsrpt
