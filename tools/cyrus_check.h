#pragma once
/// What keeps clients from logging in by Cyrus SASL, as far as it can be seen without asking the library, or by a table
/// of users.
///
/// Use:     for (const auto& p : cyrus_problems(config)) …            // penstock check, penstock import
/// Finds:   options that are not there or cannot be read by the library, plugins that they name and that are not
///          installed, saslauthd's socket or sasldb that is not there or closed to the program cyrus; tables of users
///          that cannot be read, that everybody can read, or with values that are no hashes.
/// Blocks:  from the only thread of a process, which may be root.
#include <string>
#include <vector>

#include "lib/config/config.h"

namespace pen::tools {

struct SaslMachine {
  std::vector<std::string> plugins;  // file names, "libplain.so"
};
SaslMachine this_sasl_machine();

/// Of the applications and tables of all smtpd services; each a warning, with the place of smtpd_sasl_path.
config::Problems cyrus_problems(const config::Config& config, const SaslMachine& machine);

}  // namespace pen::tools
