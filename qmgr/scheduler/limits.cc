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

bool Limits::full(const Destination& d) const {
  const std::uint32_t limit = connections(d);
  if (d.holding >= limit || clock_.now < d.refused_until || shaping_.full(d)) return true;
  // What was heard of other hosts a while ago keeps nobody from asking.
  return d.elsewhere > 0 && clock_.now < d.heard_until && d.holding + d.elsewhere >= limit;
}

}  // namespace pen::qmgr::scheduler
