/// Rate delays: one connection, and a pause between the end of a delivery and the begin of the next.
///
/// They hold for the hosts of a route together, or a provider with twenty addresses would get twenty times the rate that
/// its next hop was given: while a delivery is in hand, and for the delay after it, no host of its route gets another. A
/// host of several routes keeps the distance for all of them. Of hosts whose pauses end together the one that was served
/// longest ago comes first, so that none has all the turns.
/// Source:  Postfix's <transport>_destination_rate_delay, which counts by next hop.
#include <algorithm>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

namespace {
template <class F>
void each_host(Cluster& c, F&& f) {
  if (c.transport->limits.rate_delay.count() == 0) return;
  for (auto& level : c.levels) {
    for (auto& m : level) f(*m->destination);
  }
}
}  // namespace

bool Model::paced_elsewhere(const Destination& d,
                            const std::vector<std::unique_ptr<Member>>& level) {
  return keeps_pace(d) && std::any_of(level.begin(), level.end(), [&d](const auto& m) {
           return m->destination != &d && m->destination->holding > 0;
         });
}

void Model::pace_begins(Cluster& c, Destination& d) {
  if (!keeps_pace(d)) return;
  const bool listed = paused.erase(pause_place(d)) > 0;
  d.turn = next_turn++;
  if (listed) paused[pause_place(d)] = &d;
  each_host(c, [](Destination& host) { ++host.underway; });
}

void Model::pace_ends(Cluster& c) {
  each_host(c, [this](Destination& host) {
    // One that was taken back was no delivery: connections that wait for its end may go on at once.
    if (--host.underway == 0 && host.paused_until <= now) pause_until(host, now);
  });
}

void Model::pause(Cluster& c) {
  each_host(c, [this, &c](Destination& host) {
    pause_until(host, now + c.transport->limits.rate_delay);
  });
}

void Model::pause_until(Destination& d, SteadyTime end) {
  paused.erase(pause_place(d));
  d.paused_until = end;
  paused[pause_place(d)] = &d;
}

void Model::end_pauses() {
  while (!paused.empty() && std::get<SteadyTime>(paused.begin()->first) <= now) {
    Destination& d = *paused.begin()->second;
    paused.erase(paused.begin());
    ++d.references;
    for (Connection* c : std::vector<Connection*>(d.connections)) {
      hand_out(*c);
      if (c->jobs() == 0) set_idle(*c);
    }
    unblock(d);
    pump_workers();  // before the next host of the same route
    --d.references;
    drop_if_unused(d);
  }
}

void Model::drop_if_unused(Destination& d) {
  if (d.references > 0 || d.holding > 0) return;
  if (d.paused_until > now) return;  // its pause counts for whoever comes next
  if (!paused.empty()) paused.erase(pause_place(d));
  leave_class_line(d);
  const std::string key = d.key;
  destinations.erase(key);
}

}  // namespace pen::qmgr::scheduler
