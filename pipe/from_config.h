#pragma once
/// What a line of master.cf says of its command, with main.cf, as the rules that delivery goes by.
///
/// Use:     PEN_TRY_ASSIGN(auto rules, pipes::rules_from(config, service, words, {{"mail_owner", …}}));
/// Errors:  config::ConfigError::bad_value: names the service and what is wrong.
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/send/mailbox/command_account.h"
#include "pipe/job.h"

namespace pen::pipes {

/// service: its name in master.cf; words: those of the line that are the program's own; kept: the accounts of the mail
/// system.
Result<Rules> rules_from(const config::Config& config, const std::string& service,
                         const std::vector<std::string>& words, const mailbox::MailAccounts& kept);

}  // namespace pen::pipes
