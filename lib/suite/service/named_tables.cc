#include "lib/suite/service/named_tables.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/config/restrictions.h"
#include "lib/map/map.h"
#include "lib/map/table_file.h"
#include "lib/suite/confine/programs.h"

namespace pen::service {
namespace {

using config::Names;

std::string_view bare(std::string_view item) {
  while (item.starts_with('!')) item.remove_prefix(1);
  return map::without_adapters(item);
}

bool has_table_type(std::string_view item) {
  item = bare(item);
  const auto colon = item.find(':');
  return colon != std::string_view::npos && std::ranges::count(map::known_types(), item.substr(0, colon)) != 0;
}

config::RestrictionName::Argument argument_of(std::string_view item) {
  const config::RestrictionName* known = config::find_restriction(item);
  return known == nullptr ? config::RestrictionName::none : known->takes_argument;
}

/// "{ type:table, { search_order = … } }" is that table.
std::string without_options(const std::string& item) {
  if (!item.starts_with('{') || !item.ends_with('}')) return item;
  const auto parts = split_list(std::string_view(item).substr(1, item.size() - 2));
  return parts.empty() ? std::string() : parts.front();
}

void add(const config::Config& config, const std::string& setting, Names names, std::vector<NamedTable>& out) {
  const auto items = config.list(setting);
  if (!items) return;
  for (const std::string& table : tables_among(*items, names))
    out.push_back({setting, std::string(bare(table)), false});
  if (!config::is_match_list(names)) return;
  for (const std::string& item : *items)
    if (bare(item).starts_with('/')) out.push_back({setting, std::string(bare(item)), true});
}

}  // namespace

Names names_in(const config::Config& config, std::string_view setting) {
  if (const config::Row* row = config::find_row(setting)) return config::names_of(*row);
  const auto& classes = config.settings().smtpd_restriction_classes;
  return std::ranges::count(classes, setting) != 0 ? Names::restrictions : Names::nothing;
}

std::vector<std::string> tables_among(const std::vector<std::string>& items, Names names) {
  std::vector<std::string> out;
  switch (names) {
    case Names::tables:
    case Names::key_tables:
      return items;
    case Names::strings:
    case Names::domains:
    case Names::hosts:
    case Names::networks:
    case Names::conditions:
    case Names::file_lists:
      std::ranges::copy_if(items, std::back_inserter(out), has_table_type);
      return out;
    case Names::restrictions: {
      // Of the item before; what a policy server's name or a DNS list looks like does not count.
      auto takes = config::RestrictionName::none;
      for (const std::string& item : items) {
        const auto argument = std::exchange(takes, config::RestrictionName::none);
        if (argument == config::RestrictionName::table)
          out.push_back(without_options(item));
        else if (argument == config::RestrictionName::none && has_table_type(item))
          out.push_back(item);
        if (argument == config::RestrictionName::none) takes = argument_of(item);
      }
      return out;
    }
    case Names::nothing:
    case Names::filters:
    case Names::servers:
    case Names::file:
    case Names::keys:
    case Names::certificates:
    case Names::directory:
    case Names::written:
      return out;
  }
  return out;
}

std::vector<NamedTable> named_tables(const config::Config& config, std::string_view program) {
  std::vector<NamedTable> out;
  for (const config::Row& row : config::rows()) {
    const bool counts = row.kind == config::Class::obsolete || row.kind == config::Class::acts;
    if (counts && (program.empty() || confine::reads(row, program)))
      add(config, std::string(row.name), config::names_of(row), out);
  }
  if (program.empty() || program == "smtpd") {
    for (const std::string& name : config.settings().smtpd_restriction_classes)
      add(config, name, Names::restrictions, out);
  }
  return out;
}

}  // namespace pen::service
