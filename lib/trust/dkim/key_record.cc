#include "lib/trust/dkim/key_record.h"

#include <algorithm>

#include "lib/base/base64.h"
#include "lib/base/text.h"
#include "lib/trust/dkim/tag_list.h"

namespace pen::dkim {
namespace {

bool contains(std::string_view list, std::string_view word) {
  return std::ranges::any_of(colon_list(list), [&](std::string_view item) { return iequals(item, word); });
}

}  // namespace

Result<KeyRecord> KeyRecord::parse(std::string_view text) {
  if (text.size() > kMaxSize) return fail(DkimError::too_large, "key record");
  PEN_TRY_ASSIGN(const auto tags, TagList::parse(text));
  KeyRecord record;
  if (const auto* v = tags.find("v")) {
    if (*v != "DKIM1") return fail(DkimError::unsupported, "v=" + printable(*v, 40));
    // It must be the first tag, so that other records are told apart.
    if (!trim(text).starts_with('v')) return fail(DkimError::syntax, "v= is not the first tag");
  }
  if (const auto* k = tags.find("k")) {
    if (iequals(*k, "ed25519"))
      record.type = Type::ed25519;
    else if (!iequals(*k, "rsa"))
      return fail(DkimError::unsupported, "k=" + printable(*k, 40));
  }
  const auto* p = tags.find("p");
  if (p == nullptr) return fail(DkimError::syntax, "no p=");
  std::string digits = without_blanks(*p);
  while (digits.size() % 4 != 0) digits += '=';  // some leave it out
  auto key = base64_decode(digits);
  if (!key) return fail(DkimError::syntax, "p=");
  record.key = *std::move(key);
  if (const auto* h = tags.find("h")) record.sha256 = contains(*h, "sha256");
  if (const auto* s = tags.find("s")) record.for_mail = contains(*s, "*") || contains(*s, "email");
  if (const auto* t = tags.find("t")) {
    record.testing = contains(*t, "y");
    record.same_domain = contains(*t, "s");
  }
  return record;
}

std::string key_name(std::string_view selector, std::string_view domain) {
  return std::string(selector) + "._domainkey." + std::string(domain);
}

std::string zone_line(std::string_view name, std::string_view value) {
  constexpr std::size_t kString = 255;
  std::string out = std::string(name) + ". IN TXT (";
  do {
    out += "\n\t\"" + std::string(value.substr(0, kString)) + "\"";
    value.remove_prefix(std::min(kString, value.size()));
  } while (!value.empty());
  return out + " )\n";
}

}  // namespace pen::dkim
