#pragma once
/// Opens every table and list of a configuration as the programs will, and reports those that cannot be used.
///
/// Use:     for (const auto& p : table_problems(config)) …         // penstock check, reload, start
/// Finds:   unknown types, missing and unreadable files, syntax errors with file and line, patterns
///          that do not compile, damaged indexed files, bad networks; entries of session_classes.
/// As:      the current user. As root, programs may read what root may read (lib/suite/service/table_opener.h).
/// Thread:  any.
#include "lib/config/config.h"

namespace pen::tools {

/// Errors for what the administrator set, in main.cf or by -o in master.cf; warnings for defaults. Each has its file
/// and line.
/// passed_over: of a line of a table that cannot be read and is passed over: check finds an error, for somebody wrote
/// it to act; a start only warns, for the table has served without it.
config::Problems table_problems(const config::Config& config, config::Severity passed_over = config::Severity::warning);

/// The problems of session_classes only: entries that cannot be read, in main.cf or by -o; a missing anvil.
config::Problems class_problems(const config::Config& config);

}  // namespace pen::tools
