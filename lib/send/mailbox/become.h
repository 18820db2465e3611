#pragma once
/// Gives up root's rights for those of an account, for good.
#include "lib/base/result.h"
#include "lib/send/mailbox/work.h"

namespace pen::mailbox {

/// In a process with one thread. Errors: errno; EPERM: root is refused, or its rights could be regained. After an error
/// the rights of the process are unknown.
Result<void> become(const Identity& who);

}  // namespace pen::mailbox
