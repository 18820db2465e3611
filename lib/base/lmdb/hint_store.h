#pragma once
/// A file of records that one process keeps: an LMDB database. Hints are read whole at the start and written behind
/// (lib/suite/remembered); what is large is looked up in it.
///
/// Use:     auto store = HintStore::open(data_directory + "/senders", "greylisting begins anew", map_size);
///                                                       // on a thread: it reads the whole file
///          store->each([](key, value) { … });   store->write(changes);
/// Shared:  one process has the file at a time, by a lock beside it: at a reload the next process waits for the last
///          one.
/// Damage:  the file is set aside and a new one begun; warning() says so. All content is hints.
/// Errors:  EWOULDBLOCK: another process has it; errno; DatabaseError.
/// Thread:  any; write() one at a time.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/lmdb/change.h"
#include "lib/base/lmdb/database.h"

namespace pen::lmdb {

class HintStore {
 public:
  /// lost: what the loss of a damaged file costs, for the warning. map_size: the limit of the file's growth.
  static Result<std::shared_ptr<HintStore>> open(const std::string& directory, std::string_view lost,
                                                 std::size_t map_size);

  /// nullopt: there is no such key.
  Result<std::optional<std::string>> find(std::string_view key) const;
  /// In the order of the keys, from the first that is not below `from`, until visit returns false.
  Result<void> each_from(std::string_view from,
                         const std::function<bool(std::string_view key, std::string_view value)>& visit) const;
  Result<void> each(const std::function<void(std::string_view key, std::string_view value)>& visit) const;
  /// Returns when the changes are on disk.
  Result<void> write(const std::vector<Change>& changes) const;
  const std::string& warning() const { return warning_; }

 private:
  Fd lock_;
  std::unique_ptr<Database> database_;
  std::string warning_;
};

}  // namespace pen::lmdb
