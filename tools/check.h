#pragma once
/// penstock check: the faults of an instance, in sentences.
#include <string>
#include <vector>

#include "lib/config/config.h"

namespace pen::tools {

struct CheckOptions {
  bool json = false;  // one document with level, file, line, setting, text and advice of each finding
  bool dns = true;    // look names up
};
/// Prints one line per finding to standard output. Returns EX_OK, or EX_CONFIG if the mail system would not start or
/// would not be safe.
int check(const std::string& config_directory, const CheckOptions& options);

/// The same findings, for others to show.
struct CheckFinding {
  config::Problem problem;
  std::string advice;  // what to write instead
};
std::vector<CheckFinding> check_findings(const std::string& config_directory, bool dns);

/// The faults of a configuration, one sentence with its place each. Opens the tables.
struct Faults {
  std::vector<std::string> errors;    ///< keep mail from being taken or delivered: of the files, unusable tables
  std::vector<std::string> warnings;  ///< of the tables: lines that are passed over, parameters without effect
};
Faults faults(const config::Config& config);

}  // namespace pen::tools
