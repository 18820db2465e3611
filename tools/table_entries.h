#pragma once
/// The entries of tables that have a text, with their places: what can be read without asking a table.
///
/// Use:     for (const PlacedEntry& e : table_entries(config, tables)) … e.value, e.file, e.line …
/// Bounds:  kMostEntries of one list of tables.
/// Thread:  any. Reads files.
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/map/table_text.h"

namespace pen::tools {

inline constexpr std::size_t kMostEntries = 10000;

struct PlacedEntry : map::TableEntry {
  std::string file;  // empty: the setting that names the table is the place
};
/// Of lmdb, hash, btree, cdb, texthash and inline tables; of regexp, pcre and cidr the rules, with the pattern as the
/// key, but those with parts of the key in their result. A text that cannot be read has no entries.
std::vector<PlacedEntry> table_entries(const config::Config& config, const std::vector<std::string>& tables);

}  // namespace pen::tools
