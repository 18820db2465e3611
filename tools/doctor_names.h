#pragma once
/// Asks DNS what penstock doctor judges of names, keys and certificates.
///
/// Use:     const AskedNames asked = ask_names(config);
/// Domains: mydestination, virtual_mailbox_domains, virtual_alias_domains and relay_domains, as far as these are
///          written out; names of this host alone (localhost) are left out. kMostDomains at most.
/// Bounds:  kNamesTime in all; what was not answered by then is unknown.
/// Thread:  any: it has a loop of its own. Blocks.
#include <vector>

#include "lib/config/config.h"
#include "tools/doctor_judge.h"

namespace pen::tools {

inline constexpr seconds kNamesTime{15};
inline constexpr std::size_t kMostDomains = 20;

struct AskedNames {
  NameFacts names;
  std::vector<KeyFacts> keys;
  Told tlsa;                            // of _25._tcp.myhostname
  std::string fault;                    // nothing could be asked
  std::vector<std::string> key_faults;  // why keys or tables of DKIM and ARC cannot be used
};
AskedNames ask_names(const config::Config& config);

/// The domains that have their mail here. Pure.
std::vector<std::string> own_domains(const config::Config& config);

}  // namespace pen::tools
