#include "lib/send/delivery/program.h"

#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/mail/attempt.h"
#include "lib/suite/events/attempt.h"

namespace pen::delivery {
namespace {

SlotEvents log_as(const std::string& relay, metrics::Agent agent) {
  return {
      .answered =
          [relay, agent](const ipc::delivery::Job& job, const mail::Recipient& recipient, const mail::Delays& delays,
                         const mail::DeliveryStatus& status) {
            mail::count_attempt(agent, delays, status.action, job.purpose);
            const auto wording = mail::wording_of(job.purpose, job.soft_refusals);
            log::info("{}", mail::delivery_line(job.queue_id, recipient, relay, 1, delays, status, wording));
            events::tell_attempt({.queue_id = job.queue_id,
                                  .message = job,
                                  .recipient = recipient,
                                  .relay = relay,
                                  .delays = delays,
                                  .status = status,
                                  .wording = wording,
                                  .nexthop = job.nexthop,
                                  .number = job.attempt});
          },
      .warning = [](const std::string& queue_id, const std::string& text) { log::warning("{}: {}", queue_id, text); }};
}

}  // namespace

Result<std::shared_ptr<const map::StatusFilter>> open_filter(const std::vector<std::string>& tables,
                                                             const char* setting, const std::string& default_type) {
  const map::OpenOptions options{.default_type = default_type, .setting = setting};
  PEN_TRY_ASSIGN(auto filter, map::StatusFilter::open(tables, options));
  for (const auto& problem : filter.problems()) log::warning("{}", map::advice(problem));
  if (filter.empty()) return nullptr;
  return std::make_shared<const map::StatusFilter>(std::move(filter));
}

void serve(service::Context& context, std::function<async::Task<Result<void>>(Channel)> deliveries,
           std::vector<service::Conversation> others) {
  others.push_back(
      {ipc::delivery::kName,
       [deliveries = std::move(deliveries)](ipc::Opening opening) { return deliveries(Channel(std::move(opening))); },
       service::Askers::queue_manager});
  service::serve_conversations(context, std::move(others));
}

Result<service::Hooks> serve_slots(service::Context& context, Agent agent) {
  PEN_TRY_ASSIGN(auto filter,
                 open_filter(agent.filter, agent.filter_setting, context.settings().default_database_type));
  auto slots = std::make_shared<SlotEnvironment>(SlotEnvironment{.loop = context.loop(),
                                                                 .pool = agent.files,
                                                                 .draining = context.draining(),
                                                                 .limit = context.limit(),
                                                                 .events = log_as(context.service(), agent.counted_as),
                                                                 .deliver = std::move(agent.deliver),
                                                                 .deliver_together = std::move(agent.deliver_together),
                                                                 .filter = std::move(filter)});
  serve(context, [slots](Channel channel) { return serve_slots(slots, std::move(channel)); });
  return service::Hooks{.status = [slots] {
    return std::vector<std::string>{fmt::format("deliveries in hand {}, recipients done {}", slots->busy, slots->done)};
  }};
}

}  // namespace pen::delivery
