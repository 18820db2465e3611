#pragma once
/// Output, errors and configuration of every tool.
#include <string>

#include "lib/config/config.h"

namespace pen::tools {

/// Prints "program: text" to standard error and ends with a code of sysexits.h, or what service::own_status() makes of
/// it.
[[noreturn]] void die(const std::string& program, int code, const std::string& text);

/// Prints to standard output; ends the program (EX_IOERR) if the reader has gone.
void print(const std::string& text);

/// The settings of the instance in `directory` ("": MAIL_CONFIG or the default). Ends the program (EX_CONFIG).
config::Config load_instance(const std::string& program, const std::string& directory);

}  // namespace pen::tools
