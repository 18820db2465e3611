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

std::optional<VerpAddress> verp_address(std::string_view address, std::string_view delimiters) {
  PEN_CHECK(delimiters.size() == 2, "delimiters of VERP");
  const std::string local = unquote_local(local_part(address));
  const auto first = local.find(delimiters[0]);
  const auto second = local.rfind(delimiters[1]);
  if (first == std::string::npos || second == std::string::npos || first == 0 || second <= first + 1)
    return std::nullopt;
  const std::string_view domain = std::string_view(local).substr(second + 1);
  if (!valid_hostname(domain, true)) return std::nullopt;
  VerpAddress out{.sender = quote_local(local.substr(0, first)),
                  .recipient = quote_local(local.substr(first + 1, second - first - 1))};
  if (const auto own = domain_part(address); !own.empty()) out.sender.append(1, '@').append(own);
  out.recipient.append(1, '@').append(domain);
  return out;
}

std::string verp_refusal(std::string_view sender, std::string_view given, std::string_view allowed) {
  if (given.empty()) return {};
  if (sender.empty()) return "503 5.5.4 Error: XVERP requires non-null sender";
  if (verp_delimiters(given, allowed)) return {};
  return std::string("501 5.5.4 Error: XVERP needs two characters from ").append(allowed);
}

bool verp_delimiters(std::string_view text, std::string_view allowed) {
  return text.size() == 2 && text.find_first_not_of(allowed) == std::string_view::npos;
}

}  // namespace pen::mail
