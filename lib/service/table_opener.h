#pragma once
/// The right to read tables that only root may read, kept by a process of its own when a program drops root's rights.
///
/// Why:     Postfix opens tables before it drops rights, so smtp_sasl_password_maps and the like are readable by root
///          only everywhere; and a table that changes is opened again, when the rights are gone.
///          And of tables that a program may no longer open by name, because the directory they stand in holds the
///          queue too (docs/security.md): a file that takes the place of the one that was there.
/// Use:     lend_private_tables(config, "smtp");     // as root, before drop_privileges() and before any thread
/// Does:    nothing where mail_owner may read every table of the program's settings by its rules. Else forks a process
///          that keeps its rights (root's: those to read files) and opens, for reading, regular files of a list that
///          is closed: those tables, where they really were when the program started (a link put in their place is
///          refused). The program gets descriptors. It ends when the program does.
/// Errors:  of an opening: unreadable with errno. A file that takes longer than ten seconds is ETIMEDOUT.
#include <string>

#include "lib/base/result.h"
#include "lib/config/config.h"

namespace pen::service {

Result<void> lend_private_tables(const config::Config& config, const std::string& program);

}  // namespace pen::service
