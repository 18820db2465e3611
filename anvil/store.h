#pragma once
/// The file of what anvil remembers of senders: an LMDB database of small records.
///
/// Use:     auto store = Store::open(data_directory + "/senders");   // on a thread: it reads the whole file
///          store->each([](key, value) { … });   store->write(changes);
/// Shared:  one process has the file at a time, by a lock beside it: at a reload the next anvil waits for the last one.
/// Damage:  the file is set aside and a new one begun; warning() says so. All content is hints.
/// Errors:  EWOULDBLOCK: another process has it; errno; DatabaseError.
/// Thread:  any, one at a time.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "anvil/record.h"
#include "lib/base/fd.h"
#include "lib/lmdb/database.h"

namespace pen::anvil {

class Store {
 public:
  static Result<std::shared_ptr<Store>> open(const std::string& directory);

  Result<void> each(const std::function<void(std::string_view key, std::string_view value)>& visit) const;
  /// Returns when the changes are on disk.
  Result<void> write(const std::vector<Change>& changes) const;
  const std::string& warning() const { return warning_; }

 private:
  Fd lock_;
  std::unique_ptr<lmdb::Database> database_;
  std::string warning_;
};

}  // namespace pen::anvil
