#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/receive/resolve/resolve.h"

namespace pen::resolve {
namespace {

/// Removes the route: "@a,@b:user@c" gives "user@c".
std::string_view without_route(std::string_view address) {
  if (!address.starts_with('@')) return address;
  const auto colon = address.find(':');
  // A colon inside an address literal does not end a route.
  const auto bracket = address.find('[');
  if (colon == std::string_view::npos || (bracket != std::string_view::npos && bracket < colon)) return address;
  return address.substr(colon + 1);
}

}  // namespace

std::string rewrite_address(const Options& options, std::string_view address, std::optional<std::string_view> append) {
  address = without_route(address);
  if (address.empty()) return {};
  const std::string_view given = mail::domain_part(address);
  if (given.contains('.') && !given.ends_with('.')) return std::string(address);  // nothing is missing, as mostly
  std::string local(mail::local_part(address));
  std::string domain(given);
  while (domain.ends_with('.')) domain.pop_back();
  // "user@": this host's user, or an address that no mail can go to. No other domain must take its place.
  if (domain.empty() && mail::has_domain(address))
    return local + "@" + (options.resolve_null_domain ? options.myhostname : std::string());

  if (domain.empty() && local.find('"') == std::string::npos) {
    if (const auto bang = local.find('!');
        options.swap_bangpath && bang != std::string::npos && bang > 0 && bang + 1 < local.size()) {
      domain = local.substr(0, bang);
      local.erase(0, bang + 1);
    } else if (const auto percent = local.rfind('%'); options.allow_percent_hack && percent != std::string::npos &&
                                                      percent > 0 && percent + 1 < local.size()) {
      domain = local.substr(percent + 1);
      local.erase(percent);
    }
  }
  // For mail of remote clients the given domain replaces ours; if it is empty, nothing is appended.
  const std::string_view origin = append.value_or(options.myorigin);
  const std::string_view parent = append.value_or(options.mydomain);
  if (domain.empty() && options.append_at_myorigin) domain = origin;
  if (!domain.empty() && !domain.contains('.') && !domain.starts_with('[') && options.append_dot_mydomain &&
      !parent.empty()) {
    domain += '.';
    domain += parent;
  }
  return domain.empty() ? local : local + "@" + domain;
}

}  // namespace pen::resolve
