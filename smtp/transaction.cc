#include "smtp/transaction.h"

#include <algorithm>

namespace pen::smtp {

void Transaction::settle(std::size_t recipient, const mail::DeliveryStatus& status) {
  auto& r = recipients[recipient];
  if (r.state == Recipient::State::settled) return;
  r.state = Recipient::State::settled;
  r.status = status;
  ++settled;
}

void Transaction::settle_rest(const mail::DeliveryStatus& status) {
  for (std::size_t i = 0; i < recipients.size(); ++i) settle(i, status);
}

void Transaction::settle_accepted(const mail::DeliveryStatus& status) {
  for (std::size_t i = 0; i < recipients.size(); ++i)
    if (recipients[i].state == Recipient::State::accepted) settle(i, status);
}

JobDone Transaction::done(SteadyTime now) {
  JobDone out{.job = job,
              .results = {},
              .service_time = std::chrono::duration_cast<microseconds>(now - started),
              .connection_use = use};
  const auto is_rest = [](const Recipient& r) { return r.rest; };
  const auto is_taken = [](const Recipient& r) { return r.status.dsn.starts_with('2'); };
  if (std::ranges::any_of(recipients, is_rest) && std::ranges::any_of(recipients, is_taken))
    for (const auto& r : recipients) out.rest.push_back(r.rest);
  out.results.reserve(recipients.size());
  for (auto& r : recipients) out.results.push_back(std::move(r.status));
  return out;
}

}  // namespace pen::smtp
