#pragma once
/// The tables that the settings of a configuration name.
///
/// Use:     for (const NamedTable& t : named_tables(config)) … t.spec …      // "hash:/etc/penstock/transport"
/// Finds:   in every LIST and TEXT setting that acts, and in old names of such: items of a known table type, items of
///          …_maps, …_checks and …_database without a type (they have default_database_type), what follows
///          check_…_access, and /file names of other lists. Also what restriction classes hold.
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

}  // namespace pen::service
