#pragma once
/// Prints settings of main.cf and services of master.cf for penconf.
///
/// Use:     int status = show_settings(config, listing, names);
/// Prints:  to standard output; errors go to standard error. Each function returns the exit status: EX_UNAVAILABLE if
///          a value cannot be expanded.
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/config.h"

namespace pen::tools {

struct Listing {
  enum class Of { main, services, columns, overrides };
  Of of = Of::main;
  /// Of main.cf without names: those that Postfix and Penstock have, those of transports, those of somebody's own.
  enum class Class { all, builtin, service, user };
  Class of_class = Class::all;
  bool defaults = false, set_only = false, expand = false, fold = false, json = false;
  bool hide_names = false, hide_values = false;
  bool quiet = false;  // nothing is said of names that no setting has

  /// One setting in the selected form, without the line end.
  std::string line(const std::string& name, const std::string& value) const;
};

int show_settings(const config::Config& config, const Listing& listing, std::vector<std::string> names);
/// Shows the services "service/type/name", where each part may be "*" or missing.
int show_services(const config::Config& config, const Listing& listing, const std::vector<std::string>& selectors);
/// Shows the types of look-up tables.
int show_table_types();
/// Shows each on a line of its own.
int show_words(std::vector<std::string_view> words);

/// Puts one space in place of blanks, as postconf does; breaks lines of more than `most` characters there and indents
/// continuation lines by four, as in main.cf.
std::string folded(std::string_view text, std::size_t most);

}  // namespace pen::tools
