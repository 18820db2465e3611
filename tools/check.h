#pragma once
/// penstock check: what is wrong with an instance, in sentences.
#include <string>

namespace pen::tools {

/// Prints one line per finding to standard output. Returns EX_OK, or EX_CONFIG when something would
/// keep the mail system from starting or from being safe.
int check(const std::string& config_directory);

}  // namespace pen::tools
