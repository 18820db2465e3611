#include "qmgr/scheduler/speed.h"

#include <limits>
#include <utility>

namespace pen::qmgr::scheduler {

namespace {
constexpr int kSlowFactor = 3;
constexpr milliseconds kSlowFloor{50};  // differences below this are noise
// A host that was not measured lately is taken for so fast: beside a host that is slower than most it is worth a try.
constexpr milliseconds kUnmeasured{150};
}  // namespace

void Speed::learn(Connection& c, microseconds since_begun) const {
  destdb::Facts& f = c.destination->facts;
  f.service_time = service_time(c, since_begun);
  f.measured = clock_.wall;
}

microseconds Speed::service_time(Connection& c, microseconds since_begun) const {
  Destination& d = *c.destination;
  const microseconds least{1};  // 0: never measured
  const auto mean = [](microseconds old, microseconds fresh) {
    return old.count() == 0 ? fresh : (old * 7 + fresh) / 8;
  };
  const auto gap =
      c.last_done == kNever ? microseconds::max() : std::chrono::duration_cast<microseconds>(clock_.now - c.last_done);
  c.last_done = c.flows_since = clock_.now;
  // A measure of long ago says nothing.
  const microseconds old = measured_lately(d) ? d.facts.service_time : microseconds(0);
  // With PIPELINING alone a result is believed when the next message's commands have their replies, if there is a next
  // one: such a result comes late, and the last one of a flow soon after it.
  const bool held = content_waits(d);
  const bool last = c.handed.size() <= 1;
  if (since_begun <= gap) {  // the flow was dry
    c.flow_begun = clock_.now - since_begun;
    c.in_flow = 1;
    if (held && !last && old.count() > 0) return old;
    if (!held || last) d.dry_time = mean(d.dry_time, since_begun);
    return mean(old, std::max(since_begun - (content_waits(d) ? 2 : 1) * path(c), least));
  }
  ++c.in_flow;
  const auto flow = std::chrono::duration_cast<microseconds>(clock_.now - c.flow_begun);
  const microseconds pace = held && last ? (flow - path(c)) / c.in_flow : gap;
  if (d.dry_time.count() > 0) d.path = mean(d.path, std::max(d.dry_time - pace, c.round_trip));
  const microseconds each = std::max(std::min(pace, since_begun - path(c)), least);
  // What was measured before the two times were separated had the path's time in it.
  return std::exchange(d.told_apart, true) ? mean(old, each) : each;
}

bool Speed::much_longer(microseconds time, microseconds best) { return time > best * kSlowFactor + kSlowFloor; }

microseconds Speed::best_of(const std::vector<std::unique_ptr<Member>>& level) const {
  microseconds best = microseconds::max();
  std::size_t working = 0;
  for (const auto& m : level) {
    const Destination& d = *m->destination;
    if (back_off_.dead(d)) continue;
    ++working;
    const bool known = measured_lately(d) && d.facts.service_time.count() > 0;
    best = std::min(best, known ? d.facts.service_time : microseconds(kUnmeasured));
  }
  return working > 1 ? best : microseconds(0);
}

}  // namespace pen::qmgr::scheduler
