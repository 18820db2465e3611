#pragma once
/// Looks up the account of a command that master.cf names: user=user[:group] of pipe and spawn.
///
/// Errors:  ConfigError::bad_value with a sentence that names the service: no such user or group, root, or an
///          account of the mail system. Errors of the look-up itself.
#include <sys/types.h>

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/send/mailbox/child.h"

namespace pen::mailbox {

/// An account of the mail system, by the setting that names it: no command gets its rights.
struct MailAccount {
  const char* setting;
  uid_t uid;
  gid_t gid;
};
using MailAccounts = std::vector<MailAccount>;

/// group: empty for the user's own.
Result<Identity> command_account(const std::string& user, const std::string& group, const MailAccounts& kept,
                                 const std::string& service);

}  // namespace pen::mailbox
