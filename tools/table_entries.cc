#include "tools/table_entries.h"

#include "lib/base/text.h"
#include "lib/map/file_map.h"
#include "lib/map/table_file.h"

namespace pen::tools {
namespace {

std::string_view without_braces(std::string_view text) {
  text = trim(text);
  return text.size() >= 2 && text.front() == '{' && text.back() == '}' ? trim(text.substr(1, text.size() - 2)) : text;
}

/// Of inline:{ {key = value}, key=value }, without a place.
void add_inline(std::string_view name, std::vector<PlacedEntry>& all) {
  for (const std::string& item : split_list(without_braces(name))) {
    const std::string_view pair = without_braces(item);
    const auto equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == pair.size()) continue;
    all.push_back({{.line = 0,
                    .key = std::string(trim(pair.substr(0, equals))),
                    .value = std::string(trim(pair.substr(equals + 1)))},
                   {}});
  }
}

}  // namespace

std::vector<PlacedEntry> table_entries(const config::Config& config, const std::vector<std::string>& tables) {
  std::vector<PlacedEntry> all;
  for (const map::PlainTable& table : map::plain_tables(join(tables), config.settings().default_database_type)) {
    if (table.type == "inline") add_inline(table.name, all);
    if (!table.indexed() && table.type != "texthash") continue;
    const auto text = map::read_table_file(table.name);
    if (!text) continue;
    for (map::TableEntry& entry : map::parse_table(*text, table.name).entries)
      if (all.size() < kMostEntries) all.push_back({std::move(entry), table.name});
  }
  return all;
}

}  // namespace pen::tools
