#pragma once
/// The command line of penmap and penalias.
///
/// Use:     const auto options = MapOptions::read(argc, argv, "penmap", Source::table);
///          if (!options) return options.error().print();
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "lib/map/build.h"
#include "lib/suite/service/command_line.h"
#include "tools/map_message.h"

namespace pen::tools {

/// The form of a table's text.
enum class Source { table, aliases };

struct MapOptions {
  const char* name = "penmap";
  Source source = Source::table;
  std::string directory;
  std::optional<std::string> query, remove;
  MessageKeys message;
  bool incremental = false, list = false, keep_root = false, inherit_mode = true;
  bool json = false, values_are_files = false, all = false;
  bool other_values_stay = false;  // with values_are_files: those that do not begin with a slash
  map::BuildOptions build;
  std::vector<std::string> tables;

  static std::expected<MapOptions, service::Ending> read(int argc, const char* const* argv, const char* name,
                                                         Source source);
};

}  // namespace pen::tools
