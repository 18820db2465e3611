#include "lib/receive/tenant/identity.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/base/text.h"

namespace pen::tenant {

std::string_view describe(TenantError e) {
  switch (e) {
    case TenantError::identity:
      return "cannot name tenants so";
    case TenantError::unsubscribe:
      return "not an action";
  }
  return "error";
}

std::string name_of(std::string_view called) {
  std::string name = to_lower(trim(called));
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte == 0x7f || c == ',' || c == '"') c = '_';
  }
  if (name.size() > kMaxName) {
    std::size_t end = kMaxName;
    while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0U) == 0x80U) --end;
    name.resize(end);
  }
  return name;
}

Result<std::shared_ptr<const Identity>> Identity::open(const config::Settings& s) {
  if (s.tenant_identity.empty()) return nullptr;
  constexpr std::pair<std::string_view, By> kWords[] = {{"sasl_login", By::sasl_login},
                                                        {"sender_domain", By::sender_domain},
                                                        {"sender", By::sender},
                                                        {"header", By::header}};
  auto identity = std::shared_ptr<Identity>(new Identity);
  for (const std::string& word : s.tenant_identity) {
    const auto* found = std::ranges::find_if(kWords, [&](const auto& known) { return iequals(known.first, word); });
    if (found == std::end(kWords))
      return fail(TenantError::identity,
                  "tenant_identity: " + word + " (sasl_login, sender_domain, sender and header are there)");
    identity->by_.push_back(found->second);
    if (found->second == By::header) identity->field_ = s.tenant_header;
  }
  const auto named = [](unsigned char c) { return c > ' ' && c < 0x7f && c != ':'; };
  if (std::ranges::find(identity->by_, By::header) != identity->by_.end() &&
      (identity->field_.empty() || !std::ranges::all_of(identity->field_, named)))
    return fail(TenantError::identity, "tenant_header: not the name of a header field");
  const map::OpenOptions open{.default_type = s.default_database_type};
  auto clients = map::MatchList::open(map::MatchList::Kind::host, join(s.tenant_header_clients),
                                      {.parent_domains = false, .open = open.of("tenant_header_clients")});
  if (!clients) return fail(std::move(clients).error().within("tenant_header_clients"));
  identity->clients_ = *std::move(clients);
  auto maps = map::MapList::open(join(s.tenant_maps), open.of("tenant_maps"));
  if (!maps) return fail(std::move(maps).error().within("tenant_maps"));
  identity->maps_ = *std::move(maps);
  return identity;
}

Result<std::string> Identity::of(const Clues& clues) const {
  for (const By by : by_) {
    std::string_view found;
    switch (by) {
      case By::sasl_login:
        found = clues.login;
        break;
      case By::sender_domain: {
        const auto at = clues.sender.rfind('@');
        if (at != std::string::npos) found = std::string_view(clues.sender).substr(at + 1);
        break;
      }
      case By::sender:
        found = clues.sender;
        break;
      case By::header:
        found = clues.header;
        break;
    }
    std::string name = name_of(found);
    if (name.empty()) continue;
    if (maps_.empty()) return name;
    auto value = maps_.lookup(name);
    if (!value) return fail(std::move(value).error().within("tenant_maps"));
    return *value ? name_of(**value) : std::move(name);
  }
  return std::string();
}

Result<bool> Identity::may_say(std::string_view name, std::string_view address) const {
  if (field_.empty()) return false;
  auto yes = clients_.matches_host(name, address);
  if (!yes) return fail(std::move(yes).error().within("tenant_header_clients"));
  return yes;
}

}  // namespace pen::tenant
