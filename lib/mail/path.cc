/// Paths of MAIL and RCPT.
#include "lib/mail/address.h"
#include "lib/mail/command.h"

namespace pen::mail {

Result<std::string> take_path(std::string_view& text, bool strict, OddDomains odd) {
  std::size_t used = 0;
  // The character set is judged after all parameters are known, because SMTPUTF8 follows the path.
  auto address = parse_path(
      text, {.smtputf8 = true, .allow_null = true, .strict = strict, .of_hosts = true, .odd_domains = odd}, &used);
  if (!address) return fail(CommandError::bad_address, std::string(text.substr(0, text.find(' '))));
  text.remove_prefix(used);
  if (address->ends_with('.') && has_domain(*address)) address->pop_back();
  return address;
}

}  // namespace pen::mail
