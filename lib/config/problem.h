#pragma once
/// A problem in the configuration: one sentence with the place it is about.
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace pen::config {

enum class ConfigError { unreadable = 1, bad_syntax, bad_value, too_large };
std::string_view error_module(ConfigError);
std::string_view describe(ConfigError);

enum class Severity {
  error,    ///< no program starts with this
  warning,  ///< the mail system behaves differently from what the file asks for
  note      ///< worth knowing; nothing is lost
};

struct Problem {
  Severity severity = Severity::error;
  std::string file;  ///< empty: the command line, or no place
  int line = 0;
  std::string name;  ///< the setting or service concerned; may be empty
  std::string text;  ///< what is wrong and what to do; no final full stop

  /// "file:line: name: text"; unknown parts are left out.
  std::string message() const;
};

using Problems = std::vector<Problem>;
/// Sorts by severity, file, line, name.
void sort_problems(Problems& problems);

}  // namespace pen::config
