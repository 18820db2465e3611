#pragma once
/// What a line of master.cf says of its command, with main.cf, as the rules that delivery goes by.
///
/// Use:     PEN_TRY_ASSIGN(auto rules, pipes::rules_from(config, service, words, {.uid = …, .gid = …}));
/// Errors:  config::ConfigError::bad_value: names the service and what is wrong.
#include <sys/types.h>

#include <string>
#include <vector>

#include "lib/config/config.h"
#include "pipe/job.h"

namespace pen::pipes {

/// The account of the mail system.
struct Account {
  uid_t uid = 0;
  gid_t gid = 0;
};
/// service: its name in master.cf; words: those of the line that are the program's own.
Result<Rules> rules_from(const config::Config& config, const std::string& service,
                         const std::vector<std::string>& words, Account owner);

}  // namespace pen::pipes
