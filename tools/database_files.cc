#include "tools/database_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <set>

#include "lib/base/text.h"
#include "lib/map/database_table.h"
#include "lib/map/table_file.h"
#include "lib/suite/service/as_account.h"
#include "lib/suite/service/named_tables.h"
#include "lib/suite/service/setup.h"

namespace pen::tools {
namespace {

constexpr std::string_view kType = "sqlite:";

/// What the table's file says of its database; empty: it says nothing that can be read.
std::string database_of(const std::string& file) {
  const auto text = map::read_table_file(file);
  if (!text) return {};
  const auto table = map::database::read_table("sqlite", *text, file, {});
  return table && !(*table)->hosts.empty() ? (*table)->hosts.front() : std::string();
}

}  // namespace

config::Problems database_file_problems(const config::Config& config) {
  config::Problems found;
  const auto owner = service::mail_owner(config.settings());
  if (!owner) return found;
  std::set<std::string> told;
  const auto look = [&](const config::Config& own, const std::string& name, const config::Place& place) {
    const auto items = own.list(name).value_or(std::vector<std::string>());
    for (const std::string& table : service::tables_among(items, service::names_in(own, name))) {
      const auto at = table.find(kType);
      if (at == std::string::npos || (at != 0 && table[at - 1] != ':')) continue;
      const std::string path = database_of(table.substr(at + kType.size()));
      if (path.empty() || !told.insert(path).second) continue;
      const service::AsAccount as(*owner);
      if (!as.ok() || ::faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) == 0 || errno != EACCES) continue;
      found.push_back({config::Severity::warning, place.file, place.line, name,
                       fmt::format("{} cannot be read by mail_owner ({}), as whom SQLite opens it: mail that needs {} "
                                   "waits; chgrp it to a group of that account, and chmod g+r",
                                   printable(path, 120), config.settings().mail_owner, printable(table, 120))});
    }
  };
  for (const std::string& name : config.names_set())
    look(config, name, config.where(name).value_or(config::Place{config.main_file(), 0}));
  for (const config::Service& service : config.master()) {
    if (service.overrides.empty()) continue;
    const config::Config own = config.with(service);
    for (const auto& a : service.overrides) look(own, a.name, {config.master_file(), service.line});
  }
  return found;
}

}  // namespace pen::tools
