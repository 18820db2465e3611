#pragma once
/// A table in memory that knows which of its records are not stored yet. No I/O.
/// lib/suite/remembered/written_behind.h keeps it in a file. What it drops, and when, is its own matter.
#include <cstddef>
#include <string_view>
#include <vector>

#include "lib/base/lmdb/change.h"

namespace pen::remembered {

class Table {
 public:
  virtual ~Table() = default;
  /// A stored record. What this process has learnt itself counts first; one that cannot be read is a lost hint.
  virtual void take(std::string_view key, std::string_view value) = 0;
  virtual bool changed() const = 0;
  /// The changes since the last call, at most `most`.
  virtual std::vector<lmdb::Change> take_changes(std::size_t most) = 0;
};

}  // namespace pen::remembered
