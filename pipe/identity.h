#pragma once
/// Looks up the account of a command: user= of master.cf.
///
/// Errors:  ConfigError::bad_value with a sentence that names the service: no such user or group, root, or the
///          account that owns the queue. Errors of the look-up itself.
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
