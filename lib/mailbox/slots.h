#pragma once
/// Serves the delivery conversation for agents that deliver on this host (local, virtual, pipe): qmgr's connections are
/// delivery slots, each a task that works through its jobs in order.
///
/// Use:     co_await serve_slots(environment, channel)   // one per connection of qmgr; ends with it
/// Logs:    one Postfix-style line per recipient (lib/mail/delivery_line.h).
/// Stages:  a job is marked committed before its first delivery starts: at the death of this program qmgr then defers
///          it as in doubt instead of assuming that nothing happened.
/// Ending:  of the connection, while what is in hand is finished too: Incoming::ending tells the deliveries, which
///          end; nothing is logged of them, for the next queue manager makes them again.
/// Content: in a spool file counts only as long as the file is in the use that it had when the job came (lib/spool).
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/async/handler_pool.h"
#include "lib/async/sync.h"
#include "lib/ipc/channel.h"
#include "lib/ipc/delivery.h"
#include "lib/mailbox/incoming.h"
#include "lib/map/ask.h"
#include "lib/map/status_filter.h"

namespace pen::mailbox {

using SlotChannel = ipc::Channel<ipc::delivery::ToProgram, ipc::delivery::FromProgram>;

struct SlotEnvironment {
  async::Loop& loop;
  async::HandlerPool& pool;  // for files
  std::string relay;         // for the log: "local"
  std::size_t limit = 100;   // slots at once; more are refused
  std::function<async::Task<mail::DeliveryStatus>(std::shared_ptr<const Incoming>, mail::Recipient)> deliver;
  // in place of deliver, for an agent that takes all recipients of a job at once: one status for each
  std::function<async::Task<std::vector<mail::DeliveryStatus>>(std::shared_ptr<const Incoming>,
                                                               std::vector<mail::Recipient>)>
      deliver_together = {};
  // what becomes of each status before it is told
  std::shared_ptr<const map::StatusFilter> filter = {};
  // when raised, what is in hand is finished and the connection ends
  async::Cancel* draining = nullptr;
  std::shared_ptr<map::Asker> tables = std::make_shared<map::Asker>(loop);
  std::size_t busy = 0;    // jobs in hand, for the status
  std::uint64_t done = 0;  // recipients answered
};

/// Ends when qmgr closes the connection (deliveries in hand then end soon, by themselves), or drained.
/// Returns the error that ended the connection.
async::Task<Result<void>> serve_slots(std::shared_ptr<SlotEnvironment> environment, SlotChannel channel);
/// For SlotEnvironment::filter; what is wrong with its tables is logged. nullptr: there are none.
Result<std::shared_ptr<const map::StatusFilter>> open_status_filter(const std::vector<std::string>& tables,
                                                                    const std::string& default_type);
/// What the agent does, for its SIGUSR1 status.
std::vector<std::string> status_lines(const SlotEnvironment& environment);

}  // namespace pen::mailbox
