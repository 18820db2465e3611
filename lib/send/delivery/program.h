#pragma once
/// What the mains of delivery programs have in common: they serve qmgr, and write deliveries to the log.
///
/// Use:     delivery::serve(context, [server](Channel channel) { return deliveries(server, std::move(channel)); });
///          or, for an agent of this host (local, virtual, pipe):
///          return delivery::serve_slots(context, {.files = …, .deliver = …, .filter = …});
/// Owns:    nothing: what `deliver` uses lives as long as the process.
/// Logs:    one Postfix-style line for each recipient (lib/mail/delivery_line.h); why a conversation ended, unless qmgr
///          has closed it.
/// Errors:  serve_slots(): those of the filter's tables.
/// Thread:  the loop's.
#include <functional>
#include <string>
#include <vector>

#include "lib/base/metrics/labels.h"
#include "lib/send/delivery/slots.h"
#include "lib/suite/service/conversations.h"
#include "lib/suite/service/service.h"

namespace pen::delivery {

/// `deliveries` serves one conversation and returns why that ended. It is no capturing coroutine. others: further
/// conversations on the same socket.
void serve(service::Context& context, std::function<async::Task<Result<void>>(Channel)> deliveries,
           std::vector<service::Conversation> others = {});

struct Agent {
  async::HandlerPool& files;  // for the spool: apart from what may hang in a delivery
  Deliver deliver = {};
  DeliverTogether deliver_together = {};
  metrics::Agent counted_as;
  const std::vector<std::string>& filter;  // tables for map::StatusFilter
  const char* filter_setting;              // which names them
};
/// The tables of such a setting; nullptr: there are none. What is wrong with them is logged.
Result<std::shared_ptr<const map::StatusFilter>> open_filter(const std::vector<std::string>& tables,
                                                             const char* setting, const std::string& default_type);
/// Serves an agent with as many slots as master.cf lets the service have.
Result<service::Hooks> serve_slots(service::Context& context, Agent agent);

}  // namespace pen::delivery
