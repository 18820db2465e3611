#pragma once
/// The deliveries of an agent of this host (local, virtual, pipe): qmgr's connections are delivery slots, each a task
/// that works through its jobs in order.
///
/// Use:     auto agent = std::make_shared<SlotEnvironment>(…);
///          co_return co_await serve_slots(agent, std::move(channel));      // one for each conversation with qmgr
/// Events:  the program hears of each answer and of what else belongs into its log (SlotEvents).
/// Stages:  a job is marked committed before its first delivery starts: at the death of this program qmgr then defers
///          it as in doubt instead of assuming that nothing happened.
/// Ending:  of the conversation, while what is in hand is finished too: Incoming::ending tells the deliveries, which
///          end; the program hears of no answer, because the next queue manager makes them again.
/// Content: in a spool file counts only as long as the file is in the use that it had when the job came
///          (lib/queue/spool).
/// Bounds:  SlotEnvironment::limit slots in a conversation, kMaxJobsPerSlot jobs in each.
/// Errors:  serve_slots() returns why the conversation ended, as converse() does.
/// Thread:  the loop's.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/async/handler_pool.h"
#include "lib/mail/delivery_line.h"
#include "lib/map/ask.h"
#include "lib/map/status_filter.h"
#include "lib/send/delivery/conversation.h"
#include "lib/send/delivery/incoming.h"

namespace pen::delivery {

inline constexpr std::size_t kMaxJobsPerSlot = 64;

/// One status for one recipient, or, of an agent that takes all recipients of a job at once, for each of them.
using Deliver =
    std::function<async::Task<mail::DeliveryStatus>(std::shared_ptr<const Incoming>, mail::Recipient recipient)>;
using DeliverTogether = std::function<async::Task<std::vector<mail::DeliveryStatus>>(
    std::shared_ptr<const Incoming>, std::vector<mail::Recipient> recipients)>;

struct SlotEvents {
  /// A recipient of the job has its answer.
  std::function<void(const ipc::delivery::Job&, const mail::Recipient&, const mail::Delays&,
                     const mail::DeliveryStatus&)>
      answered;
  /// Of a message: the conversation ended during its delivery, or a table of the filter could not be read.
  std::function<void(const std::string& queue_id, const std::string& text)> warning;
};

/// What all conversations of one agent share.
struct SlotEnvironment {
  async::Loop& loop;
  async::HandlerPool& pool;  // for files
  async::Cancel& draining;   // when raised, what is in hand is finished and the conversation ends
  std::size_t limit = 100;   // slots at once; more are refused
  SlotEvents events;
  Deliver deliver = {};
  DeliverTogether deliver_together = {};                 // in place of deliver
  std::shared_ptr<const map::StatusFilter> filter = {};  // changes each status before it is reported
  std::shared_ptr<map::Asker> tables = std::make_shared<map::Asker>(loop);
  std::size_t busy = 0;    // jobs in hand
  std::uint64_t done = 0;  // recipients answered
};

/// Ends when qmgr closes the conversation (deliveries in hand then end soon, by themselves), or drained.
async::Task<Result<void>> serve_slots(std::shared_ptr<SlotEnvironment> environment, Channel channel);

}  // namespace pen::delivery
