#pragma once
/// A message that a delivery agent works on, and the way back into the queue.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/async/task.h"
#include "lib/mail/delivery_status.h"
#include "lib/mail/envelope.h"
#include "lib/mailbox/child.h"
#include "lib/mailbox/ending.h"

namespace pen::mailbox {

/// Shared by all work on the message.
struct Incoming {
  mail::Envelope envelope;  // of the message; recipients are those of the job
  ipc::Content body;
  std::string header;                         // the first kMaxHeader bytes of the content
  std::string nexthop;                        // of the job
  bool soft_refusals = false;                 // soft_bounce: failures are temporary
  std::shared_ptr<const Ending> ending = {};  // of the message's conversation; none: it never ends
  /// Whether all further work on the message is useless.
  bool over() const { return ending && ending->has_come(); }
};

/// A new message made from one that is being delivered.
struct Successor {
  mail::Envelope envelope;  // queue_id, arrival and body facts are filled in later
  std::string fields;       // CRLF lines put before the content, after Received:
};

class Requeue {
 public:
  virtual ~Requeue() = default;
  /// Returns the queue id once the message is on stable storage.
  virtual async::Task<Result<std::string>> requeue(std::shared_ptr<const Incoming> message, Successor successor) = 0;
};

}  // namespace pen::mailbox
