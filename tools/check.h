#pragma once
/// penstock check: what is wrong with an instance, in sentences.
#include <string>
#include <vector>

#include "lib/config/config.h"

namespace pen::tools {

/// Prints one line per finding to standard output. Returns EX_OK, or EX_CONFIG when something would
/// keep the mail system from starting or from being safe.
int check(const std::string& config_directory);

/// What keeps mail from being taken or delivered with this configuration, one sentence with its
/// place each: errors of the files, tables that cannot be used. Opens the tables.
std::vector<std::string> faults(const config::Config& config);

}  // namespace pen::tools
