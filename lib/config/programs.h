#pragma once
/// Where the programs are that master starts, when daemon_directory does not say it or names another mail system's.
/// Use:     here.programs = config::programs_beside();          // config.h, Surroundings
///          here.holds_programs = config::holds_programs;
#include <string>

#include "lib/base/result.h"

namespace pen::config {

/// The directory of the programs beside the running one: ../libexec/penstock, or its own when it is one of them, so
/// that a build tree and an installed prefix both work. "": there is none.
std::string programs_beside();

/// Whether the directory holds a master of Penstock, known by what is written in it: another mail system has a master
/// too, which must not be run. Errors: errno, of a master that cannot be read.
Result<bool> holds_programs(const std::string& directory);

}  // namespace pen::config
