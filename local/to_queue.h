#pragma once
/// Mail that goes on from local: into the queue again, as new messages.
///
/// Use:     auto queue = std::make_shared<ToQueue>(context.loop(), pool, resolver, context.settings(), socket);
///          context.loop().spawn("enqueue", queue->keep_connected());
/// Thread:  the loop's; the pool is for the spool.
#include <memory>
#include <string>

#include "lib/config/settings.h"
#include "lib/intake/enqueue_client.h"
#include "lib/intake/intake.h"
#include "lib/mail/queue_id.h"
#include "local/requeue.h"

namespace pen::local {

class ToQueue final : public Requeue {
 public:
  /// loop and pool must outlive it. socket: qmgr's.
  ToQueue(async::Loop& loop, async::HandlerPool& pool, std::shared_ptr<const resolve::Resolve> resolver,
          const config::Settings& settings, std::string socket);
  async::Task<void> keep_connected() { return intake::EnqueueClient::keep_connected(queue_); }
  async::Task<Result<std::string>> requeue(std::shared_ptr<const delivery::Incoming> message,
                                           Successor successor) override;

 private:
  std::shared_ptr<intake::EnqueueClient> queue_;
  mail::QueueIdGenerator ids_;
  intake::Intake intake_;
};

}  // namespace pen::local
