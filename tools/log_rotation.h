#pragma once
/// penstock logrotate: puts the log file aside while the mail system runs, and no line is lost.
///
/// How:     the file gets its new name; master opens the log again and hands it to every program, and says in its
///          status file when the last one has it (Supervisor::hand_out_log). Only then is the former file compressed,
///          because until then a program may write to it.
/// Errors:  the function reports them and returns the exit status: EX_CONFIG (there is no file to rotate), EX_CANTCREAT
///          (it cannot be renamed), EX_TEMPFAIL (another rotation runs, or a program keeps the former file: that one
///          stays as it is, uncompressed), the compressor's own status.
/// Source:  Postfix's "postfix logrotate", maillog_file_rotate_suffix, maillog_file_compressor.
#include <ctime>
#include <string>

#include "lib/config/config.h"

namespace pen::tools {

/// The name of a file that is put aside at a time: path, a dot, and the suffix by strftime(3). Empty: the suffix gives
/// no usable name (nothing, a slash, or text that is too long).
std::string rotated_name(const std::string& path, const std::string& suffix, std::time_t now);

int rotate_log(const config::Config& config);

}  // namespace pen::tools
