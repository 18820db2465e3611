#pragma once
/// The log that the settings ask for: maillog_file, else syslog.
///
/// Use:     PEN_TRY(open_log(settings, "smtpd", false));
/// Errors:  bad_value; errno where the file cannot be opened.
/// Thread:  before any other is started.
#include <string>

#include "lib/base/log.h"
#include "lib/base/result.h"
#include "lib/config/config.h"

namespace pen::service {

/// program: "smtpd".
Result<log::Options> log_options(const config::Settings& settings, const std::string& program, bool debug);
/// Opens it.
Result<void> open_log(const config::Settings& settings, const std::string& program, bool debug);

}  // namespace pen::service
