#pragma once
/// What the names in a configuration mean for mail: Config::report(), and what it says in other words.
///
/// Use:     const Findings found = findings(config);       // found.all is config.report()
///          no_login(config_of_service)                      // smtpd's warning, in the same words
/// Pure; any thread.
#include <set>
#include <string>
#include <vector>

#include "lib/config/config.h"

namespace pen::config {

struct Findings {
  Problems all;
  /// Those of them because of which mail is refused or waits although every program starts.
  Problems cost_mail;
  /// Names that are set, act in general, and have no effect in this configuration.
  std::set<std::string, std::less<>> without_effect;
};
Findings findings(const Config& config);

/// Why clients of a service cannot log in although they should; empty: they can, or need not. config: with the
/// service's own settings.
std::string no_login(const Config& config);

/// A setting that has another value at compatibility level 0, which Postfix takes where no level is set.
struct OldDefault {
  std::string name, there, here;
};
/// Those that the files do not set; empty where the level is set.
std::vector<OldDefault> old_defaults(const Config& config);

}  // namespace pen::config
