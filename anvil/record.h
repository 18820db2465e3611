#pragma once
/// What the greylist and the quotas have in common: records that are written behind, and tables that are walked in
/// turn.
#include <algorithm>
#include <cstdint>

#include "lib/base/lmdb/change.h"

namespace pen::anvil {

/// The first letter of a key says what the record belongs to.
using lmdb::Change;
inline constexpr char kTripletKind = 'g', kClientKind = 'c', kQuotaKind = 'q';

/// Seconds from one time to a later one; 0 if the clock was set back.
inline std::int64_t since(std::int64_t then, std::int64_t now) { return std::max<std::int64_t>(0, now - then); }

/// Moves to the next places of an unordered table and visits what is there, until `most` records were seen or every
/// place was.
template <class Table, class Visit>
void visit_some(Table& table, std::size_t& place, std::size_t most, Visit visit) {
  std::size_t seen = 0;
  for (std::size_t tries = 0; tries < table.bucket_count() && seen < most; ++tries) {
    if (++place >= table.bucket_count()) place = 0;
    for (auto it = table.begin(place); it != table.end(place); ++it, ++seen) visit(it->first, it->second);
  }
}

}  // namespace pen::anvil
