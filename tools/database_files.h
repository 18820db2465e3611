#pragma once
/// Database files of sqlite: tables. Programs get the table's own file from the process that is root
/// (lib/suite/service/table_opener.h); the database that it names is opened by SQLite itself, as mail_owner.
///
/// Use:     for (const auto& p : database_file_problems(config)) …         // penstock check, import
/// Thread:  the only one of a process: it looks as mail_owner.
#include "lib/config/config.h"

namespace pen::tools {

/// Databases that mail_owner cannot read, a warning each. Nothing where this process may not look as mail_owner.
config::Problems database_file_problems(const config::Config& config);

}  // namespace pen::tools
