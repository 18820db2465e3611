#include "lib/service/named_tables.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/confine/programs.h"
#include "lib/map/map.h"
#include "lib/map/table_file.h"

namespace pen::service {
namespace {

bool asks_table(std::string_view item) { return item.starts_with("check_") && item.ends_with("_access"); }

/// Lists whose items may be /file names with more items.
bool takes_files(std::string_view setting) {
  static constexpr std::string_view kEndings[] = {"mydestination", "networks",    "_clients", "_domains",
                                                  "_exceptions",   "_exclusions", "_hosts",   "_users"};
  return std::ranges::any_of(kEndings, [&](std::string_view e) { return setting.ends_with(e); });
}

/// Names tables of the others; or is what a program writes itself, or keeps in memory.
bool opens_none(std::string_view setting) {
  static constexpr std::string_view kNames[] = {"proxy_read_maps", "address_verify_map", "postscreen_cache_map",
                                                "penapi_history_map"};
  return std::ranges::find(kNames, setting) != std::end(kNames) || setting.ends_with("_cache_database");
}

std::string_view bare(std::string_view item) {
  while (item.starts_with('!')) item.remove_prefix(1);
  return map::without_adapters(item);
}

void add(const config::Config& config, const std::string& setting, std::vector<NamedTable>& out) {
  const auto items = config.list(setting);
  if (!items) return;
  const bool all_tables = setting.ends_with("_maps") || setting.ends_with("_database") || setting.ends_with("_checks");
  bool table_next = false;
  for (const std::string& written : *items) {
    const std::string_view item = bare(written);
    const bool named = all_tables || std::exchange(table_next, asks_table(item));
    const auto colon = item.find(':');
    const bool typed =
        colon != std::string_view::npos && std::ranges::count(map::known_types(), item.substr(0, colon)) != 0;
    const bool file_only = !named && item.starts_with('/') && takes_files(setting);
    if (named || typed || file_only) out.push_back({setting, std::string(item), file_only});
  }
}

}  // namespace

std::vector<NamedTable> named_tables(const config::Config& config, std::string_view program) {
  std::vector<NamedTable> out;
  for (const config::Row& row : config::rows()) {
    if (opens_none(row.name)) continue;
    const bool list = row.type == config::Type::list || row.type == config::Type::text;
    const bool counts = row.kind == config::Class::obsolete || (row.kind == config::Class::acts && list);
    if (counts && (program.empty() || confine::reads(row, program))) add(config, std::string(row.name), out);
  }
  if (program.empty() || program == "smtpd") {
    for (const std::string& name : config.settings().smtpd_restriction_classes) add(config, name, out);
  }
  return out;
}

}  // namespace pen::service
