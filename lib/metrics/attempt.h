#pragma once
/// Counts what became of one attempt to deliver to one recipient, wherever its log line is written.
///
/// Use:     count_attempt(Agent::smtp, delays, status.action, job.purpose);
/// Probes are no mail, and are not counted.
/// Thread:  any.
#include "lib/mail/delivery_line.h"
#include "lib/metrics/metrics.h"

namespace pen::metrics {

/// Of an attempt, and of a final result.
constexpr Fate fate_of(mail::Action action) {
  if (action == mail::Action::deferred) return Fate::deferred;
  return action == mail::Action::failed ? Fate::bounced : Fate::delivered;
}

void count_attempt(Agent agent, const mail::Delays& delays, mail::Action action, mail::Purpose purpose);

}  // namespace pen::metrics
