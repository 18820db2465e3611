#include "tools/table_entries.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/map/file_map.h"
#include "lib/map/rules.h"
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

/// Of a file, or of {{pattern result}, …}, which has no place.
void add_rules(const map::PlainTable& table, std::vector<PlacedEntry>& all) {
  std::string text;
  const bool inside = table.name.starts_with('{');
  if (inside) {
    for (const std::string& rule : split_list(without_braces(table.name)))
      text += std::string(without_braces(rule)) + "\n";
  } else if (const auto read = map::read_table_file(table.name)) {
    text = *read;
  }
  map::PassedOver passed_over;  // the table itself reports them
  const auto style = table.type == "cidr" ? map::RuleStyle::word : map::RuleStyle::delimited;
  const auto rules = map::parse_rules(text, table.name, style, passed_over);
  if (!rules) return;
  for (const map::Rule& rule : *rules) {
    const bool whole = std::ranges::all_of(rule.result, [](const map::RulePiece& piece) { return piece.group < 0; });
    if (rule.kind != map::Rule::Kind::match || !whole || all.size() >= kMostEntries) continue;
    PlacedEntry entry{{.line = rule.line, .key = rule.pattern, .value = {}}, inside ? std::string() : table.name};
    for (const map::RulePiece& piece : rule.result) entry.value += piece.text;
    all.push_back(std::move(entry));
  }
}

}  // namespace

std::vector<PlacedEntry> table_entries(const config::Config& config, const std::vector<std::string>& tables) {
  std::vector<PlacedEntry> all;
  for (const map::PlainTable& table : map::plain_tables(join(tables), config.settings().default_database_type)) {
    if (table.type == "inline") add_inline(table.name, all);
    if (table.type == "regexp" || table.type == "pcre" || table.type == "cidr") add_rules(table, all);
    if (!table.indexed() && table.type != "texthash") continue;
    const auto text = map::read_table_file(table.name);
    if (!text) continue;
    for (map::TableEntry& entry : map::parse_table(*text, table.name).entries)
      if (all.size() < kMostEntries) all.push_back({std::move(entry), table.name});
  }
  return all;
}

}  // namespace pen::tools
