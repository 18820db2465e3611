#include "lib/metrics/attempt.h"

namespace pen::metrics {

void count_attempt(Agent agent, const mail::Delays& delays, mail::Action action, mail::Purpose purpose) {
  if (mail::is_probe(purpose)) return;
  delivery_attempts.add(agent, fate_of(action));
  delivery_delay.observe(agent, Phase::before_queue_manager, delays.before_active);
  delivery_delay.observe(agent, Phase::queue_manager, delays.active);
  delivery_delay.observe(agent, Phase::connection_setup, delays.setup);
  delivery_delay.observe(agent, Phase::transmission, delays.transmission);
}

}  // namespace pen::metrics
