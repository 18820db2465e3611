#pragma once
/// The way back into the queue for a message that goes on from here.
#include <memory>
#include <string>

#include "lib/base/async/task.h"
#include "lib/base/result.h"
#include "lib/send/delivery/incoming.h"

namespace pen::local {

/// A new message made from one that is being delivered.
struct Successor {
  mail::Envelope envelope;  // queue_id, arrival and body facts are filled in on the way
  std::string fields;       // CRLF lines put before the content, after Received:
};

class Requeue {
 public:
  virtual ~Requeue() = default;
  /// The queue id, once the message is on stable storage.
  virtual async::Task<Result<std::string>> requeue(std::shared_ptr<const delivery::Incoming> message,
                                                   Successor successor) = 0;
};

}  // namespace pen::local
