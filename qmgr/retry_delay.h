#pragma once
/// How long a deferred message waits: as long as it is old, within the bounds, or as long as its peers say.
#include "qmgr/message.h"
#include "qmgr/surroundings.h"

namespace pen::qmgr {

/// From the end of a round to the next. Of a message with recipients that are left.
seconds retry_delay(const ManagerOptions& options, const Active& m, WallTime now);

}  // namespace pen::qmgr
