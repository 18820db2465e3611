#pragma once
/// Gives up root's rights for those of an account, for good.
#include "lib/base/result.h"
#include "lib/mailbox/work.h"

namespace pen::mailbox {

/// In a process with one thread. Errors: errno; EPERM: root is refused, or its rights can be had back. After an error
/// the process may have anybody's rights.
Result<void> become(const Identity& who);

}  // namespace pen::mailbox
