#include "qmgr/scheduler/back_off.h"

#include <algorithm>

#include "lib/mail/stated_delay.h"
#include "qmgr/scheduler/connection.h"

namespace pen::qmgr::scheduler {

using ipc::delivery::Trouble;

namespace {
constexpr seconds kLeastStated{5};  // a host that says "in 1 second" means soon
}  // namespace

std::size_t BackOff::usable_level(const Cluster& c) const {
  for (std::size_t i = 0; i < c.levels.size(); ++i) {
    for (const auto& m : c.levels[i]) {
      if (!dead(*m->destination)) return i;
    }
  }
  return c.levels.size();
}

microseconds BackOff::time(std::uint32_t failures, Trouble trouble, std::optional<seconds> stated) {
  const auto most = options_.backoff_max;
  const auto part = [this](microseconds t, std::int64_t divisor) {
    return microseconds(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(t.count() / divisor) + 1)));
  };
  if (stated) {
    // The time that the host states, within bounds; not before it, and not all at once.
    const microseconds wait = std::clamp(*stated, std::min(kLeastStated, most), most);
    return wait + part(wait, 10);
  }
  // A host that costs a worker the whole of a time-out is tried less often, and one that turned us away with 5xx
  // means it. Our own trouble says nothing about the destination.
  const std::int64_t weight = trouble == Trouble::timed_out ? 2 : trouble == Trouble::greeting_5xx ? 4 : 1;
  const unsigned shift = trouble == Trouble::local ? 0 : std::min<std::uint32_t>(failures, 16);
  const microseconds wait = std::min<seconds>(options_.backoff_min * weight * (std::int64_t{1} << shift), most);
  // Up to a quarter less: hosts that failed together are not tried together, and a message that comes back after the
  // same time finds the destination ready to be tried.
  return wait - part(wait, 4);
}

void BackOff::failed(Destination& d, Trouble trouble, const mail::DeliveryStatus& status) {
  d.facts.trouble = static_cast<std::uint8_t>(trouble);
  d.facts.dsn = status.dsn;
  d.facts.reason = status.text;
  const bool others = std::any_of(d.connections.begin(), d.connections.end(),
                                  [](const Connection* c) { return c->state == Connection::State::open; });
  if (others && trouble != Trouble::local) {
    // The host serves other connections of ours and refuses one more: that is its ceiling, not a failure.
    ceilings_.refused_one_more(d);
    return;
  }
  // one outage counts once, however many connections met it
  if (d.facts.failures > 0 && waits(d)) return;
  d.facts.next_retry = clock_.wall + time(d.facts.failures, trouble, mail::stated_delay(status));
  ++d.facts.failures;
}

}  // namespace pen::qmgr::scheduler
