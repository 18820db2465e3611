#include "lib/receive/submission/login_senders.h"

#include <pwd.h>

#include <algorithm>

#include "lib/base/idn/domain.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"

namespace pen::submission {
namespace {

/// Rewriting finds a domain in such a sender (swap_bangpath, allow_percent_hack), so text after a delimiter is not an
/// extension: jo+x%other.example becomes jo+x@other.example. This applies even if both settings are off, because they
/// may be on tomorrow.
bool hides_domain(std::string_view sender) {
  return !mail::has_domain(sender) && sender.find_first_of("%!") != std::string_view::npos;
}

/// The sender in external form, without its extension.
std::string without_extension(std::string_view sender, std::string_view delimiters) {
  if (hides_domain(sender)) return std::string(sender);
  const std::string local = mail::unquote_local(mail::local_part(sender));
  std::string address = mail::quote_local(mail::split_extension(local, delimiters).user);
  if (mail::has_domain(sender)) {
    address += '@';
    address += mail::domain_part(sender);
  }
  return address;
}

/// The next item between blanks and commas; these do not separate inside double quotes. Empty: there is none.
std::string_view next_pattern(std::string_view& rest) {
  constexpr std::string_view kBetween = ", \t\r\n";
  rest.remove_prefix(std::min(rest.find_first_not_of(kBetween), rest.size()));
  std::size_t end = 0;
  for (bool quoted = false; end < rest.size() && (quoted || kBetween.find(rest[end]) == std::string_view::npos);
       ++end) {
    if (rest[end] == '"') quoted = !quoted;
    if (rest[end] == '\\' && quoted && end + 1 < rest.size()) ++end;
  }
  const auto item = rest.substr(0, end);
  rest.remove_prefix(end);
  return item;
}

}  // namespace

Result<bool> LoginSenders::permit(std::string_view login, std::string_view sender) const {
  PEN_TRY_ASSIGN(const auto patterns, maps.lookup(login));
  if (!patterns) return false;
  const std::string bare = without_extension(sender, delimiters);
  const std::string at_domain = mail::has_domain(sender) ? "@" + std::string(mail::domain_part(sender)) : std::string();
  std::string_view rest = *patterns;
  for (auto pattern = next_pattern(rest); !pattern.empty(); pattern = next_pattern(rest)) {
    if (pattern == "*") return true;
    if (iequals(pattern, null_pattern)) {
      if (sender.empty()) return true;
    } else if (sender.empty()) {
      continue;
    } else if (idn::same_address(pattern, pattern.starts_with('@') ? at_domain : bare)) {
      return true;
    }
  }
  return false;
}

std::string login_name(uid_t uid) {
  const passwd* user = ::getpwuid(uid);
  return user != nullptr ? std::string(user->pw_name) : "uid:" + std::to_string(uid);
}

}  // namespace pen::submission
