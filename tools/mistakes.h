#pragma once
/// Mistakes that a configuration can have although it can be read: relaying for everybody, stale tables, certificates
/// that clients refuse, domains that are in two classes, names that do not resolve.
///
/// Use:     for (const Mistake& m : mistakes(config, {.dns = true})) …         // penstock check
/// Finds:   what lets strangers relay (open_relays.h); values that do not do what was meant (value_mistakes.h);
///          indexed tables that are older than their text; certificates that have expired, soon will, or do not fit
///          their key, and keys that everybody can read; a domain in two of mydestination, virtual_alias_domains,
///          virtual_mailbox_domains and relay_domains; myhostname, and hosts of relayhost, transports, filters and
///          policy services, without an address.
/// Not:     what config::Config::report() and table_problems() say.
/// Bounds:  DNS takes kDnsTime in all. Tables that other servers answer for are not asked.
/// Thread:  any. Blocks.
#include <string>
#include <vector>

#include "lib/base/time.h"
#include "lib/config/config.h"

namespace pen::tools {

struct Mistake {
  config::Problem problem;  // file, line, setting, what is wrong
  std::string advice;       // what to write instead
};
struct MistakeOptions {
  bool dns = true;
};
inline constexpr seconds kDnsTime{5};

std::vector<Mistake> mistakes(const config::Config& config, const MistakeOptions& options);

}  // namespace pen::tools
