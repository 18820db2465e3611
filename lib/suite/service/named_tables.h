#pragma once
/// The tables that the settings of a configuration name, by what their rows say that they name (config::Names).
///
/// Use:     for (const NamedTable& t : named_tables(config)) … t.spec …      // "hash:/etc/penstock/transport"
/// Finds:   every item of a setting that names tables, with a type or without (it has default_database_type then); in
///          lists of patterns, restrictions and conditions the items of a known table type, what follows
///          check_…_access, and the /file names of lists of patterns. Old names count as their successors do. Also what
///          restriction classes hold.
/// Pure.
#include <optional>
#include <string>
#include <vector>

#include "lib/config/config.h"

namespace pen::service {

struct NamedTable {
  std::string setting;
  std::string spec;        // as written, $name expanded, "!", "proxy:" and "debug:" in front taken off
  bool file_only = false;  // a /file name of a list
};
/// program: only settings that its row lists for it; empty: of all. Each spec once per setting.
std::vector<NamedTable> named_tables(const config::Config& config, std::string_view program = {});

/// What the value of the setting names; that of a restriction class is restrictions.
config::Names names_in(const config::Config& config, std::string_view setting);
/// Those of a value's items that are tables, as written, but without the braces around a table of check_ccert_access.
std::vector<std::string> tables_among(const std::vector<std::string>& items, config::Names names);

}  // namespace pen::service
