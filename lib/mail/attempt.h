#pragma once
/// Counts what became of one attempt to deliver to one recipient, wherever its log line is written.
///
/// Use:     count_attempt(metrics::Agent::smtp, delays, status.action, job.purpose);
/// Probes are no mail, and are not counted.
/// Thread:  any.
#include "lib/base/metrics/metrics.h"
#include "lib/mail/delivery_line.h"

namespace pen::mail {

/// Of an attempt, and of a final result.
constexpr metrics::Fate fate_of(Action action) {
  if (action == Action::deferred) return metrics::Fate::deferred;
  return action == Action::failed ? metrics::Fate::bounced : metrics::Fate::delivered;
}

void count_attempt(metrics::Agent agent, const Delays& delays, Action action, Purpose purpose);

}  // namespace pen::mail
