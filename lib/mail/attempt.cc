#include "lib/mail/attempt.h"

namespace pen::mail {

void count_attempt(metrics::Agent agent, const Delays& delays, Action action, Purpose purpose) {
  using metrics::Phase;
  if (is_probe(purpose)) return;
  metrics::delivery_attempts.add(agent, fate_of(action));
  metrics::delivery_delay.observe(agent, Phase::before_queue_manager, delays.before_active);
  metrics::delivery_delay.observe(agent, Phase::queue_manager, delays.active);
  metrics::delivery_delay.observe(agent, Phase::connection_setup, delays.setup);
  metrics::delivery_delay.observe(agent, Phase::transmission, delays.transmission);
}

}  // namespace pen::mail
