#include "lib/receive/resolve/masquerade.h"

#include "lib/base/idn/domain.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/receive/resolve/tables.h"

namespace pen::resolve {

Result<Masquerade> Masquerade::open(const Options& options) {
  Masquerade m;
  for (const auto& word : split_list(options.masquerade_domains)) {
    Domain domain{to_lower(word), true};
    while (domain.name.starts_with('!')) {
      domain.hides = !domain.hides;
      domain.name.erase(0, 1);
    }
    if (!domain.name.empty()) m.domains_.push_back(std::move(domain));
  }
  m.classes_ = options.masquerade_classes;
  auto exceptions = map::MatchList::open(map::MatchList::Kind::string, options.masquerade_exceptions,
                                         {.parent_domains = false, .open = options.open.of("masquerade_exceptions")});
  if (!exceptions) return fail(std::move(exceptions).error().within("masquerade_exceptions"));
  m.exceptions_ = *std::move(exceptions);
  return m;
}

Result<std::string> Masquerade::hide(std::string address, Place place) const {
  if (domains_.empty() || !list_contains(classes_, word_of(place))) return address;
  const auto at = mail::at_sign(address);
  if (at == std::string_view::npos) return address;
  const std::string domain = to_lower(std::string_view(address).substr(at + 1));
  for (const Domain& d : domains_) {
    if (!idn::within_domain(domain, d.name)) continue;
    const bool same = idn::same_domain(domain, d.name);
    if (same || !d.hides) return address;
    PEN_TRY_ASSIGN(const bool excepted,
                   exceptions_.matches(mail::unquote_local(std::string_view(address).substr(0, at))));
    if (!excepted) address.replace(at + 1, std::string::npos, d.name);
    return address;
  }
  return address;
}

}  // namespace pen::resolve
