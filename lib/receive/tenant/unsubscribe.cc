#include "lib/receive/tenant/unsubscribe.h"

#include <optional>
#include <vector>

#include "lib/base/text.h"
#include "lib/mail/header.h"
#include "lib/receive/tenant/identity.h"

namespace pen::tenant {
namespace {

constexpr std::string_view kUnsubscribe = "List-Unsubscribe", kPost = "List-Unsubscribe-Post";
constexpr std::string_view kOneClick = "List-Unsubscribe=One-Click";

struct Found {
  unsigned times = 0;
  std::string value;  // of the first, unfolded
};

struct Fields {
  Found unsubscribe, post;
};

Fields fields_of(std::string_view header) {
  Fields out;
  Found* current = nullptr;
  while (!header.empty()) {
    const auto end = header.find("\r\n");
    const std::string_view line = header.substr(0, end);
    header.remove_prefix(end == header.npos ? header.size() : end + 2);
    if (line.empty()) break;
    if (line.front() == ' ' || line.front() == '\t') {
      if (current != nullptr) current->value += line;
      continue;
    }
    const std::string_view name = line.substr(0, mail::field_name_length(line));
    current = iequals(name, kUnsubscribe) ? &out.unsubscribe : iequals(name, kPost) ? &out.post : nullptr;
    if (current == nullptr) continue;
    if (++current->times > 1)
      current = nullptr;
    else
      current->value = line.substr(line.find(':') + 1);
  }
  return out;
}

/// Calls see(uri) for each <uri> of the field, blanks taken out of it; comments do not count.
template <class F>
void each_uri(std::string_view value, F&& see) {
  unsigned comment = 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i] == '\\' && comment > 0) {
      ++i;
    } else if (value[i] == '(') {
      ++comment;
    } else if (value[i] == ')' && comment > 0) {
      --comment;
    } else if (value[i] == '<' && comment == 0) {
      std::string uri;
      for (++i; i < value.size() && value[i] != '>'; ++i)
        if (value[i] != ' ' && value[i] != '\t') uri += value[i];
      if (i < value.size()) see(uri);
    }
  }
}

bool is_https(std::string_view uri) {
  constexpr std::string_view kScheme = "https://";
  return uri.size() > kScheme.size() && iequals(uri.substr(0, kScheme.size()), kScheme) && uri[kScheme.size()] != '/';
}

}  // namespace

std::string one_click_fault(std::string_view header) {
  const Fields fields = fields_of(header);
  if (fields.unsubscribe.times == 0) return "there is no List-Unsubscribe field";
  if (fields.unsubscribe.times > 1) return "there is more than one List-Unsubscribe field";
  unsigned https = 0;
  each_uri(fields.unsubscribe.value, [&](std::string_view uri) { https += is_https(uri) ? 1 : 0; });
  if (https == 0) return "List-Unsubscribe has no https URI";
  if (https > 1) return "List-Unsubscribe has more than one https URI";
  if (fields.post.times == 0) return "there is no List-Unsubscribe-Post field";
  if (fields.post.times > 1) return "there is more than one List-Unsubscribe-Post field";
  if (!iequals(trim(fields.post.value), kOneClick))
    return "List-Unsubscribe-Post is not \"" + std::string(kOneClick) + "\"";
  return {};
}

Result<std::shared_ptr<const UnsubscribeCheck>> UnsubscribeCheck::open(const config::Settings& s) {
  if (s.list_unsubscribe_check_maps.empty()) return nullptr;
  auto maps = map::MapList::open(join(s.list_unsubscribe_check_maps),
                                 {.default_type = s.default_database_type, .setting = "list_unsubscribe_check_maps"});
  if (!maps) return fail(std::move(maps).error().within("list_unsubscribe_check_maps"));
  auto check = std::shared_ptr<UnsubscribeCheck>(new UnsubscribeCheck);
  check->maps_ = *std::move(maps);
  return check;
}

Result<UnsubscribeCheck::Action> UnsubscribeCheck::action_for(std::string_view sender, std::string_view tenant) const {
  const std::string address = to_lower(sender);
  std::vector<std::string> keys;
  if (!tenant.empty()) keys.push_back("tenant:" + std::string(tenant));
  if (!address.empty()) keys.push_back(address);
  const auto at = address.rfind('@');
  std::string_view domain = at == address.npos ? std::string_view() : std::string_view(address).substr(at + 1);
  for (int labels = 0; !domain.empty() && labels < 10; ++labels) {
    keys.emplace_back(domain);
    const auto dot = domain.find('.');
    domain = dot == domain.npos ? std::string_view() : domain.substr(dot + 1);
  }
  for (const std::string& key : keys) {
    auto value = maps_.lookup(key);
    if (!value) return fail(std::move(value).error().within("list_unsubscribe_check_maps"));
    if (!*value) continue;
    const std::string_view word = trim(**value);
    if (iequals(word, "reject")) return Action::reject;
    if (iequals(word, "warn")) return Action::warn;
    if (iequals(word, "dunno")) return Action::none;
    return fail(TenantError::unsubscribe,
                "list_unsubscribe_check_maps: " + key + ": " + printable(word, 40) + " is none of warn, reject, dunno");
  }
  return Action::none;
}

}  // namespace pen::tenant
