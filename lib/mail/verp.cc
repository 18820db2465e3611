#include "lib/mail/verp.h"

#include "lib/base/check.h"
#include "lib/mail/address.h"

namespace pen::mail {

std::string verp_sender(std::string_view sender, std::string_view delimiters, std::string_view recipient) {
  if (sender.empty()) return {};
  PEN_CHECK(delimiters.size() == 2, "delimiters of VERP");
  std::string local = unquote_local(local_part(sender));
  local += delimiters[0];
  local += unquote_local(local_part(recipient));
  if (const auto domain = domain_part(recipient); !domain.empty()) local.append(1, delimiters[1]).append(domain);
  std::string out = quote_local(local);
  if (const auto domain = domain_part(sender); !domain.empty()) out.append(1, '@').append(domain);
  return out;
}

bool verp_delimiters(std::string_view text, std::string_view allowed) {
  return text.size() == 2 && text.find_first_not_of(allowed) == std::string_view::npos;
}

}  // namespace pen::mail
