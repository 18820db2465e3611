#include "lib/config/restrictions.h"

#include <algorithm>
#include <span>

#include "lib/base/text.h"

namespace pen::config {
namespace {

using enum RestrictionName::Argument;
constexpr bool guards = true, open = false;

constexpr RestrictionName kNames[] = {
#define PEN_RESTRICTION(name, argument, waits, relaying) {#name, Check::name, argument, Waits::waits, relaying},
#define PEN_RESTRICTION_ALIAS(name, restriction)
#define PEN_RESTRICTION_MISSING(name, argument) {#name, Check::unsupported, argument, Waits::never, open},
#include "lib/config/restrictions.def"
};

struct Alias {
  std::string_view name, restriction;
};
constexpr Alias kAliases[] = {
#define PEN_RESTRICTION(name, argument, waits, relaying)
#define PEN_RESTRICTION_ALIAS(name, restriction) {#name, #restriction},
#define PEN_RESTRICTION_MISSING(name, argument)
#include "lib/config/restrictions.def"
};

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

}  // namespace pen::config
