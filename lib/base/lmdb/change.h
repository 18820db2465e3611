#pragma once
/// A change of a stored table, for those that write behind (lib/base/lmdb/hint_store.h). No I/O.
#include <optional>
#include <string>

namespace pen::lmdb {

/// A record to write; without a value: to remove.
struct Change {
  std::string key;  // of 1 to 511 bytes
  std::optional<std::string> value;
};

}  // namespace pen::lmdb
