#include "tools/own_tables.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/text.h"
#include "lib/config/cyrus_sasl.h"
#include "lib/map/file_map.h"
#include "lib/map/table_file.h"
#include "lib/map/table_text.h"
#include "lib/suite/service/named_tables.h"

namespace pen::tools {
namespace {

void add(const config::Config& config, std::vector<OwnTable>& out) {
  const std::string& usual = config.settings().default_database_type;
  for (const service::NamedTable& named : service::named_tables(config)) {
    if (named.file_only) continue;
    const bool aliases = named.setting == "alias_maps" || named.setting == "alias_database";
    const bool of_files = service::names_in(config, named.setting) == config::Names::key_tables;
    for (const map::PlainTable& table : map::plain_tables(named.spec, usual)) {
      if (!table.indexed() || !table.name.starts_with('/')) continue;
      const OwnTable found{table.type, table.name, aliases, of_files};
      if (!config.where(named.setting) && !found.has_text()) continue;  // only a default, which nobody uses
      const auto known = std::ranges::find_if(out, [&](const OwnTable& t) { return t.file() == table.file(); });
      if (known == out.end()) {
        out.push_back(found);
      } else {
        known->aliases = known->aliases || aliases;  // local_recipient_maps names alias tables too
        known->of_files = known->of_files || of_files;
      }
    }
  }
}

/// The tables of users, which the setting names beside what is no table.
void add_logins(const config::Config& config, std::vector<OwnTable>& out) {
  for (const std::string& spec : config::login_tables(config))
    for (const map::PlainTable& table : map::plain_tables(spec, config.settings().default_database_type)) {
      const OwnTable found{table.type, table.name};
      if (table.indexed() && table.name.starts_with('/') &&
          std::ranges::none_of(out, [&](const OwnTable& t) { return t.file() == found.file(); }))
        out.push_back(found);
    }
}

}  // namespace

std::string OwnTable::file() const { return text + (type == "cdb" ? ".cdb" : ".lmdb"); }
bool OwnTable::has_text() const { return ::access(text.c_str(), F_OK) == 0; }
bool OwnTable::is_made() const { return ::access(file().c_str(), F_OK) == 0; }

bool OwnTable::is_stale() const {
  struct stat made{};
  if (::stat(file().c_str(), &made) != 0) return false;
  const auto newer = [&](const std::string& path) {
    struct stat source{};
    return ::stat(path.c_str(), &source) == 0 && source.st_mtim.tv_sec > made.st_mtim.tv_sec;
  };
  if (newer(text)) return true;
  if (!of_files) return false;
  const auto content = map::read_table_file(text);
  if (!content) return false;
  return std::ranges::any_of(map::parse_table(*content, text).entries, [&](const map::TableEntry& entry) {
    return entry.value.starts_with('/') && std::ranges::any_of(split_list(entry.value), newer);
  });
}

std::string OwnTable::command() const {
  return of_files ? "penmap --all" : (aliases ? "penalias " : "penmap ") + type + ":" + text;
}

std::vector<OwnTable> own_tables(const config::Config& config) {
  std::vector<OwnTable> out;
  add(config, out);
  for (const config::Service& service : config.master()) {
    if (!service.overrides.empty()) add(config.with(service), out);
  }
  add_logins(config, out);
  return out;
}

}  // namespace pen::tools
