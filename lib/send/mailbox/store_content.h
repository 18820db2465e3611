#pragma once
/// Stores the content of one job into its target. Runs in the delivering process; blocks.
#include <functional>

#include "lib/send/mailbox/job_stream.h"
#include "lib/send/mailbox/store.h"
#include "lib/send/mailbox/work.h"

namespace pen::mailbox {

/// store(), or a version that shares locks and syncs (groups.h).
using Store = std::function<mail::DeliveryStatus(const Target&, const Message&, const Content&, const CalledOff&)>;
/// An mbox cannot be completed later. So small content is received whole before the file is touched: if the sender
/// dies at any moment, all or nothing is stored. After an early end of larger content store() removes what it has
/// appended.
mail::DeliveryStatus store_content(const Work& work, JobStream& job, const Store& store);

/// For Work::only_look. Does not look at the place: a missing mailbox would be made.
mail::DeliveryStatus would_do(const Work& work);

}  // namespace pen::mailbox
