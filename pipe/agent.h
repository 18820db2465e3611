#pragma once
/// Delivers by the command of one line of master.cf: once for all recipients of a job, or once for each where the
/// command's words ask for that.
///
/// Thread:  the loop's; a delivery blocks on the handler pool until its command has ended.
/// Source:  Postfix pipe(8).
#include <memory>
#include <vector>

#include "lib/base/async/handler_pool.h"
#include "pipe/job.h"

namespace pen::pipes {

class Agent {
 public:
  using Message = std::shared_ptr<const delivery::Incoming>;
  /// The pool must outlive the agent.
  Agent(async::HandlerPool& pool, const Clock& clock, Rules rules)
      : pool_(pool), clock_(clock), rules_(std::make_shared<const Rules>(std::move(rules))) {}
  /// One status for each recipient.
  async::Task<std::vector<mail::DeliveryStatus>> deliver(Message message, std::vector<mail::Recipient> recipients);

 private:
  async::HandlerPool& pool_;
  const Clock& clock_;
  std::shared_ptr<const Rules> rules_;
};

}  // namespace pen::pipes
