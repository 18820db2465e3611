#pragma once
/// What a command of local delivery finds in its environment. Pure.
///
/// Safety:  every value that comes from outside passes command_expansion_filter; names are ours.
/// Source:  Postfix local(8) EXTERNAL COMMAND DELIVERY, export_environment, command_expansion_filter.
#include <string>
#include <vector>

#include "lib/mail/envelope.h"
#include "lib/mailbox/accounts.h"
#include "lib/mailbox/macros.h"

namespace pen::local {

struct CommandFacts {
  const mail::Envelope* message = nullptr;
  const mail::Recipient* recipient = nullptr;
  std::string sender;                         // owner- aliases are in place
  std::string user, extension;                // of the local part; of a forward file's command: its user
  char delimiter = '\0';                      // the one in the address, else the first of recipient_delimiter
  const mailbox::Account* account = nullptr;  // whose command it is; nullptr: default_privs
};

/// The names of command_execution_directory, forward_path and luser_relay.
mailbox::Values delivery_values(const CommandFacts& facts);

/// "NAME=value", all of it: `exported` first, PATH and the names of local(8) after.
std::vector<std::string> command_environment(const CommandFacts& facts, const std::vector<std::string>& exported,
                                             std::string_view filter);

}  // namespace pen::local
