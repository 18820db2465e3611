#pragma once
/// The environment of a command of local delivery. Pure.
///
/// Safety:  values from outside pass command_expansion_filter; the names are ours.
/// Source:  Postfix local(8) EXTERNAL COMMAND DELIVERY, export_environment, command_expansion_filter.
#include <string>
#include <vector>

#include "lib/mail/envelope.h"
#include "lib/send/mailbox/accounts.h"
#include "lib/send/mailbox/macros.h"

namespace pen::local {

struct CommandFacts {
  const mail::Envelope* message = nullptr;
  const mail::Recipient* recipient = nullptr;
  std::string sender;                         // an owner- alias has replaced it
  std::string user, extension;                // of the local part; for a command in a forward file: the file's user
  char delimiter = '\0';                      // the one in the address, else the first of recipient_delimiter
  const mailbox::Account* account = nullptr;  // the command runs with its rights; nullptr: with those of default_privs
};

/// The values for command_execution_directory, forward_path and luser_relay.
mailbox::Values delivery_values(const CommandFacts& facts);

/// The whole environment as "NAME=value": first `exported`, then PATH and the names of local(8).
std::vector<std::string> command_environment(const CommandFacts& facts, const std::vector<std::string>& exported,
                                             std::string_view filter);

}  // namespace pen::local
