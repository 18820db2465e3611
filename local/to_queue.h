#pragma once
/// Mail that goes on from local: into the queue again, as new messages.
///
/// Use:     ToQueue queue(context.loop(), pool, resolver, context.settings(), socket);  queue.start();
/// Thread:  the loop's; the pool is for the spool.
#include <memory>
#include <string>

#include "lib/config/settings.h"
#include "lib/mail/queue_id.h"
#include "lib/receive/intake/enqueue_client.h"
#include "lib/receive/intake/intake.h"
#include "local/requeue.h"

namespace pen::local {

class ToQueue final : public Requeue {
 public:
  /// loop and pool must outlive it. socket: qmgr's.
  ToQueue(async::Loop& loop, async::HandlerPool& pool, std::shared_ptr<const resolve::Resolve> resolver,
          const config::Settings& settings, std::string socket);
  /// Connects to qmgr, and again whenever that is lost.
  void start() { queue_.start(); }
  async::Task<Result<std::string>> requeue(std::shared_ptr<const delivery::Incoming> message,
                                           Successor successor) override;

 private:
  intake::EnqueueClient queue_;
  mail::QueueIdGenerator ids_;
  intake::Intake intake_;
};

}  // namespace pen::local
