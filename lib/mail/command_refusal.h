#pragma once
/// The reply of a server to a MAIL or RCPT command that parse_mail() or parse_rcpt() (command.h) refused.
#include <string>

#include "lib/base/result.h"

namespace pen::mail {

/// The reply line without its line end. rcpt: the command was RCPT, not MAIL. error: a CommandError.
std::string command_refusal(const Error& error, bool rcpt);

}  // namespace pen::mail
