#pragma once
/// penconf -e, -#, -X: changes main.cf.
///
/// Use:     const auto edits = edits_of(SettingsChange::set, {"myhostname=mx.example.org"});
///          return change_main_cf(directory, *edits);
#include <expected>
#include <string>
#include <vector>

#include "lib/config/edit.h"

namespace pen::tools {

enum class SettingsChange { none, set, comment_out, remove };
/// "-e", "-#", "-X".
const char* option_of(SettingsChange change);

/// One edit for each word. The error names the invalid word.
std::expected<std::vector<config::Edit>, std::string> edits_of(SettingsChange change,
                                                               const std::vector<std::string>& words);

/// Replaces main.cf in one step. Returns the exit status after errors have been reported: EX_CONFIG, EX_IOERR,
/// EX_DATAERR (a value with which no program could start; the file is unchanged).
int change_main_cf(const std::string& directory, const std::vector<config::Edit>& edits);

}  // namespace pen::tools
