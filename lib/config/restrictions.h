#pragma once
/// Every name that an smtpd_*_restrictions list may hold, with its properties; made from restrictions.def, the one
/// place where restrictions are declared.
///
/// Use:     const RestrictionName* r = find_restriction(item);  // nullptr: a table, a restriction class, or a mistake
/// Source:  Postfix postconf(5) smtpd_*_restrictions; ../smtpd evaluates them, and `penstock check` reports those that
///          cannot act.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pen::config {

class Config;

/// In the order of the rows: smtpd uses the number as an index into its functions.
enum class Check : std::uint8_t {
#define PEN_RESTRICTION(name, argument, waits, relaying) name,
#define PEN_RESTRICTION_ALIAS(name, restriction)
#define PEN_RESTRICTION_REMOVED(name, instead)
#include "lib/config/restrictions.def"
  restriction_class,
  unsupported,
  unknown,
};

/// The slowest thing that a restriction may have to wait for.
enum class Waits : std::uint8_t { never, for_tables, for_network };

struct RestrictionName {
  enum Argument : std::uint8_t { none, table, dns_list, text };
  std::string_view name;
  Check check;
  Argument takes_argument;  // the next item is its argument
  Waits waits;
  bool guards_relaying;      // refuses mail for destinations that are not ours
  std::string_view instead;  // of a restriction that Postfix has given up: what to write in its place
};

/// Finds a restriction by its name in any case; an alias gives the restriction it stands for. nullptr: unknown name.
const RestrictionName* find_restriction(std::string_view name);
/// All their names, aliases too.
std::vector<std::string_view> restriction_names();
/// Whether the list surely refuses mail for destinations that are not ours, unless it permits it before: so what
/// Postfix asks of smtpd_relay_restrictions or smtpd_recipient_restrictions. What stands behind permit does not
/// count, nor what warn_if_reject makes harmless; of a class its items do.
bool refuses_relaying(const Config& config, const std::vector<std::string>& items);
/// For the administrator: why a restriction with Check::unsupported does not act, and what to do.
std::string cannot_act(const RestrictionName& restriction);

}  // namespace pen::config
