#pragma once
/// What penconf shows: settings of main.cf, services of master.cf.
///
/// Use:     int status = show_settings(config, listing, names);
/// Prints:  to standard output; what is wrong, to standard error. Each returns the exit status: EX_UNAVAILABLE when a
///          name is not known.
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/config.h"

namespace pen::tools {

struct Listing {
  enum class Of { main, services, columns, overrides };
  Of of = Of::main;
  bool defaults = false, set_only = false, expand = false, fold = false, json = false;
  bool hide_names = false, hide_values = false;

  /// One setting in the form that is asked for, without the line end.
  std::string line(const std::string& name, const std::string& value) const;
};

int show_settings(const config::Config& config, const Listing& listing, std::vector<std::string> names);
/// Of the services "service/type/name", where each part may be "*" or missing.
int show_services(const config::Config& config, const Listing& listing, const std::vector<std::string>& selectors);
/// The types of look-up tables.
int show_table_types();

/// Breaks at blanks; what follows the first line is indented by four, as main.cf continues lines.
std::string folded(std::string_view text);

}  // namespace pen::tools
