#include "lib/config/restrictions.h"

#include <algorithm>
#include <span>

#include "lib/base/text.h"
#include "lib/config/config.h"

namespace pen::config {
namespace {

using enum RestrictionName::Argument;
constexpr bool guards = true, open = false;

constexpr RestrictionName kNames[] = {
#define PEN_RESTRICTION(name, argument, waits, relaying) {#name, Check::name, argument, Waits::waits, relaying, {}},
#define PEN_RESTRICTION_ALIAS(name, restriction)
#define PEN_RESTRICTION_REMOVED(name, instead) {#name, Check::unsupported, none, Waits::never, open, instead},
#include "lib/config/restrictions.def"
};

struct Alias {
  std::string_view name, restriction;
};
constexpr Alias kAliases[] = {
#define PEN_RESTRICTION(name, argument, waits, relaying)
#define PEN_RESTRICTION_ALIAS(name, restriction) {#name, #restriction},
#define PEN_RESTRICTION_REMOVED(name, instead)
#include "lib/config/restrictions.def"
};

constexpr unsigned kMaxDepth = 20;  // of classes within classes; a deeper one is found to be round elsewhere

bool refuses_relaying(const Config& config, const std::vector<std::string>& items, unsigned depth) {
  const auto& classes = config.settings().smtpd_restriction_classes;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const RestrictionName* known = find_restriction(items[i]);
    if (known == nullptr) {
      if (depth < kMaxDepth && std::ranges::find(classes, items[i]) != classes.end() &&
          refuses_relaying(config, config.list(items[i]).value_or(std::vector<std::string>()), depth + 1))
        return true;
    } else if (known->check == Check::warn_if_reject) {
      ++i;
    } else if (known->check == Check::permit) {
      return false;
    } else if (known->guards_relaying) {
      return true;
    }
  }
  return false;
}

template <class Row>
const Row* find(std::span<const Row> rows, std::string_view name) {
  const auto found = std::ranges::find_if(rows, [&](const Row& r) { return iequals(r.name, name); });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

const RestrictionName* find_restriction(std::string_view name) {
  if (const Alias* alias = find(std::span<const Alias>(kAliases), name)) name = alias->restriction;
  return find(std::span<const RestrictionName>(kNames), name);
}

bool refuses_relaying(const Config& config, const std::vector<std::string>& items) {
  return refuses_relaying(config, items, 0);
}

std::vector<std::string_view> restriction_names() {
  std::vector<std::string_view> names;
  for (const RestrictionName& r : kNames)
    if (r.check != Check::unsupported) names.push_back(r.name);
  for (const Alias& a : kAliases) names.push_back(a.name);
  return names;
}

std::string cannot_act(const RestrictionName& restriction) {
  return "support for restriction \"" + std::string(restriction.name) +
         "\" has been removed in Postfix 3.9; instead, specify " + std::string(restriction.instead) +
         ": mail that reaches it gets 451 4.3.5";
}

}  // namespace pen::config
