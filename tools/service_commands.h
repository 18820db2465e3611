#pragma once
/// Commands that services of pipe and spawn run: those that could not be run, or not as the account that is named.
///
/// Use:     for (const auto& p : command_problems(config)) …            // penstock check
/// Levels:  a warning: options that cannot be read; a command that is not there where mail goes to the service, or
///          somebody connects to it. Else a note: Postfix's own master.cf has lines for software that is not installed.
/// Blocks:  looks for files; from the only thread of a process.
#include "lib/config/config.h"

namespace pen::tools {

/// With the line of master.cf each.
config::Problems command_problems(const config::Config& config);

}  // namespace pen::tools
