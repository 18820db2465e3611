#pragma once
/// Looks up the account of a command that master.cf names: user=user[:group] of pipe and spawn.
///
/// Errors:  ConfigError::bad_value with a sentence that names the service: no such user or group, root, or the
///          account that owns the queue. Errors of the look-up itself.
#include <sys/types.h>

#include <string>

#include "lib/base/result.h"
#include "lib/mailbox/child.h"

namespace pen::mailbox {

/// group: empty for the user's own. owner_uid, owner_gid: mail_owner's.
Result<Identity> command_account(const std::string& user, const std::string& group, uid_t owner_uid, gid_t owner_gid,
                                 const std::string& service);

}  // namespace pen::mailbox
