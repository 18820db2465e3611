#pragma once
/// As whom a command runs: user= of master.cf, looked up.
///
/// Errors:  ConfigError::bad_value with a sentence that names the service: no such user or group, root, or the
///          account that the queue belongs to. What asking for the account says.
#include <sys/types.h>

#include <string>

#include "lib/base/result.h"
#include "lib/mailbox/child.h"
#include "pipe/options.h"

namespace pen::pipes {

/// owner_uid, owner_gid: mail_owner's.
Result<mailbox::Identity> identity_of(const Options& options, uid_t owner_uid, gid_t owner_gid,
                                      const std::string& service);

}  // namespace pen::pipes
