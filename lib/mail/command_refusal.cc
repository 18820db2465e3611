#include "lib/mail/command_refusal.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/text.h"
#include "lib/mail/command.h"

namespace pen::mail {

std::string command_refusal(const Error& error, bool rcpt) {
  if (error.is(CommandError::syntax))
    return rcpt ? "501 5.5.4 Syntax: RCPT TO:<address>" : "501 5.5.4 Syntax: MAIL FROM:<address>";
  if (error.is(CommandError::bad_address))
    return rcpt ? "501 5.1.3 Bad recipient address syntax" : "501 5.1.7 Bad sender address syntax";
  if (error.is(CommandError::needs_smtputf8)) return "553 5.6.7 Address needs SMTPUTF8";
  // These are only unknown where DSN is turned off for the client.
  static constexpr std::string_view kOfDsn[] = {"RET=", "ENVID=", "NOTIFY=", "ORCPT="};
  if (error.is(CommandError::unknown_parameter) &&
      std::ranges::any_of(kOfDsn, [&](auto name) { return istarts_with(error.context(), name); }))
    return "501 5.7.1 DSN support is disabled";
  if (error.is(CommandError::unknown_parameter)) return "555 5.5.4 Unsupported option: " + error.context();
  if (error.is(CommandError::bad_size)) return "501 5.5.4 Bad message size syntax";
  return fmt::format("501 5.5.4 {}Bad {} parameter syntax", rcpt ? "Error: " : "", error.context());
}

}  // namespace pen::mail
