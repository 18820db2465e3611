#include "qmgr/scheduler/limits.h"

#include <algorithm>

#include "qmgr/scheduler/paying.h"

namespace pen::qmgr::scheduler {

std::uint32_t Limits::connections_in_time(const Destination& d) const {
  if (d.facts.failures > 0) return 1;  // one connection tries whether it is back
  if (RateDelay::keeps_pace(d)) return 1;
  std::uint32_t limit = d.transport->limits.destination_concurrency;
  if (limit == 0) limit = kNoLimit;
  if (const std::uint32_t paying = Paying::limit(d); paying > 0) limit = std::min(limit, paying);
  if (const std::uint32_t learned = ceilings_.connections(d); learned > 0) limit = std::min(limit, learned);
  return limit;
}

std::uint32_t Limits::allowed_at_first(const Destination& d) const {
  const std::uint32_t first = d.transport->limits.initial_concurrency;
  if (first == 0 || d.facts.failures > 0) return first;
  return clock_.wall < d.most_until ? std::max(first, d.most_lately / 2) : first;
}

void Limits::note_use(Destination& d) const {
  if (d.open < d.most_lately && clock_.wall < d.most_until) return;
  d.most_lately = d.open;
  d.most_until = clock_.wall + options_.ceiling_time;
}

bool Limits::full(const Destination& d) const {
  const std::uint32_t limit = connections(d);
  if (d.holding >= limit || clock_.now < d.refused_until || shaping_.full(d)) return true;
  // What was heard of other hosts a while ago does not keep this host from asking.
  return d.elsewhere > 0 && clock_.now < d.heard_until && d.holding + d.elsewhere >= limit;
}

}  // namespace pen::qmgr::scheduler
