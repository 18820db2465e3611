#pragma once
/// What every program and master itself does at its start: log, privileges, descriptors.
///
/// Errors:  are returned; the caller says them and ends with the exit code that fits.
/// Thread:  before any other is started.
#include <sys/types.h>

#include <optional>
#include <string>

#include "lib/base/result.h"
#include "lib/config/config.h"

namespace pen::service {

enum class SetupError { no_account = 1, root_account };
inline std::string_view error_module(SetupError) { return "setup"; }
inline std::string_view describe(SetupError e) {
  return e == SetupError::no_account ? "there is no such account" : "root cannot be mail_owner";
}

/// Opens the log that the settings ask for: maillog_file, else syslog. program: "smtpd".
Result<void> open_log(const config::Settings& settings, const std::string& program, bool debug);

struct Account {
  uid_t uid = 0;
  gid_t gid = 0;
};
/// mail_owner when this process is root; the own ids otherwise (there is nothing to change then).
Result<Account> mail_owner(const config::Settings& settings);
/// From root to the account for good, with its supplementary groups. No effect in a process that is not root.
Result<void> drop_privileges(const std::string& account);

/// As many descriptors as the hard limit lets us have: one per session is not much.
void raise_descriptor_limit();

/// Where the programs that master starts are: daemon_directory when it is set and holds a master of Penstock (a main.cf
/// of Postfix names the directory of Postfix's programs, which must not be run); else the directory beside the running
/// program (../libexec/penstock, or its own when it is one of them), so that a build tree and an installed prefix both
/// work; else the setting's default.
struct ProgramDirectory {
  std::string path;
  std::string warning;  // daemon_directory is set and passed over; "": it is not
};
ProgramDirectory program_directory(const config::Config& config);

}  // namespace pen::service
