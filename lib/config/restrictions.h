#pragma once
/// Every name that an smtpd_*_restrictions list may hold, and what is known of it without asking anybody; made from
/// restrictions.def, the one place where restrictions are declared.
///
/// Use:     const RestrictionName* r = find_restriction(item);  // nullptr: a table, a restriction class, or a mistake
/// Source:  Postfix postconf(5) smtpd_*_restrictions; ../smtpd evaluates them, `penstock check` reports what cannot
///          act.
#include <cstdint>
#include <string_view>

namespace pen::config {

/// In the order of the rows: smtpd finds a restriction's function by this number.
enum class Check : std::uint8_t {
#define PEN_RESTRICTION(name, argument, waits, relaying) name,
#define PEN_RESTRICTION_ALIAS(name, restriction)
#define PEN_RESTRICTION_MISSING(name, argument)
#include "lib/config/restrictions.def"
  restriction_class,
  unsupported,
  unknown,
};

/// What a restriction may have to wait for.
enum class Waits : std::uint8_t { never, for_tables, for_network };

struct RestrictionName {
  enum Argument : std::uint8_t { none, table, text };
  std::string_view name;
  Check check;
  Argument takes_argument;  // the item after it belongs to it
  Waits waits;
  bool guards_relaying;  // ends mail for destinations that are not ours
};

/// By name, in any case; of an alias the restriction that it stands for. nullptr: none has it.
const RestrictionName* find_restriction(std::string_view name);

}  // namespace pen::config
