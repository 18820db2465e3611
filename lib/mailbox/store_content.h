#pragma once
/// Stores the content of one job into its target. In the process that delivers; blocking.
#include <functional>

#include "lib/mailbox/job_stream.h"
#include "lib/mailbox/store.h"
#include "lib/mailbox/work.h"

namespace pen::mailbox {

/// store(), or what shares locks and syncs (groups.h).
using Store = std::function<mail::DeliveryStatus(const Target&, const Message&, const Content&, const CalledOff&)>;
/// An mbox cannot be completed later: small content is taken whole before the file is touched, so that the death of
/// the sender at any moment leaves either all or nothing. Larger content is cut off again by store() at an early end.
mail::DeliveryStatus store_content(const Work& work, JobStream& job, const Store& store);

/// For Work::only_look. The place has not been looked at: a mailbox that is not there yet would be made.
mail::DeliveryStatus would_do(const Work& work);

}  // namespace pen::mailbox
