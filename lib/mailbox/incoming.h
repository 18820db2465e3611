#pragma once
/// A message in the hands of a delivery agent, and the way back into the queue.
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

/// Shared by everything that works on the message.
struct Incoming {
  mail::Envelope envelope;  // of the message; recipients are those of the job
  ipc::Content body;
  std::string header;                         // its first kMaxHeader bytes
  std::string nexthop;                        // of the job
  bool soft_refusals = false;                 // soft_bounce: what fails is tried again
  std::shared_ptr<const Ending> ending = {};  // of its conversation; none: it has no end
  /// Nothing more is to be done for it.
  bool over() const { return ending && ending->has_come(); }
};

/// A new message made from one that is being delivered.
struct Successor {
  mail::Envelope envelope;  // queue_id, arrival and body facts are filled in on the way
  std::string fields;       // CRLF lines put before the content, after Received:
};

class Requeue {
 public:
  virtual ~Requeue() = default;
  /// The queue id, once the message is on stable storage.
  virtual async::Task<Result<std::string>> requeue(std::shared_ptr<const Incoming> message, Successor successor) = 0;
};

}  // namespace pen::mailbox
