#pragma once
/// penconf -e, -#, -X: changes main.cf, and with -M, -F or -P master.cf.
///
/// Use:     const auto edits = edits_of(SettingsChange::set, {"myhostname=mx.example.org"});
///          return change_main_cf(directory, *edits);
#include <expected>
#include <string>
#include <vector>

#include "lib/config/edit.h"
#include "lib/config/edit_master.h"

namespace pen::tools {

enum class SettingsChange { none, set, comment_out, remove };
/// "-e", "-#", "-X".
const char* option_of(SettingsChange change);

/// One edit for each word. The error names the invalid word.
std::expected<std::vector<config::Edit>, std::string> edits_of(SettingsChange change,
                                                               const std::vector<std::string>& words);

/// The same for master.cf: "smtp/inet=line" of services, "smtp/inet/chroot=n" of columns, "smtp/inet/name=value" of -o.
std::expected<std::vector<config::ServiceEdit>, std::string> service_edits_of(SettingsChange change,
                                                                              config::ServiceEdit::Of of,
                                                                              const std::vector<std::string>& words);

/// Replaces main.cf in one step. Returns the exit status after errors have been reported: EX_CONFIG, EX_IOERR,
/// EX_DATAERR (a value with which no program could start; the file is unchanged).
int change_main_cf(const std::string& directory, const std::vector<config::Edit>& edits);
/// Replaces master.cf in one step, as change_main_cf(). A service that is not there is warned of, as Postfix does.
int change_master_cf(const std::string& directory, const std::vector<config::ServiceEdit>& edits);

}  // namespace pen::tools
