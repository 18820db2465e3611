/// Does anything wait needlessly? The worlds of the tests ask this at each step.
///
/// It is computed in another way than the choice of a connection, so that a fault there shows here: what waits in a
/// pool is compared with the messages per second of the connections that exist.
#include <algorithm>

#include "lib/base/check.h"
#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

namespace {
constexpr double kDrift = 1.0 / 32;  // measures change by as much while something waits

/// The shortest time in which a further connection to a host of the level would have done a job; max(): there may be
/// none.
microseconds soonest_new(const Model& model, const Cluster& c, std::size_t usable, std::uint64_t concurrency) {
  const Transport& t = *c.transport;
  const bool may_probe = Probes::free(t) > 0 && model.options.fairness.allowed(concurrency, Probes::free(t));
  // Where one host works, what waits for it looks each second whether another may be probed (pool.h).
  const auto& level = c.levels[usable];
  const bool looks = c.look_at != kNever && std::ranges::any_of(level, [&](const auto& m) {
                       return !model.back_off.dead(*m->destination) && !Probes::unproven(*m->destination);
                     });
  microseconds soonest = microseconds::max();
  for (const auto& m : level) {
    const Destination& d = *m->destination;
    if (!model.limits.may_open(d) || !SessionClasses::possible(d) || d.denied) continue;
    if (Probes::unproven(d) && (!may_probe || looks)) continue;
    const microseconds each = model.speed.expected(d);
    if (each.count() > 0)
      soonest = std::min(soonest, model.finish.ends_in(d) - d.facts.connect_time + model.finish.worth_opening(d));
    else if (d.connections.empty())
      soonest = std::min<microseconds>(soonest, std::max<microseconds>(d.facts.connect_time, seconds(1)));
  }
  return soonest;
}

std::string needless_wait(const Model& model, const Cluster& c) {
  const Transport& t = *c.transport;
  if (!t.up || model.draining || t.exclusive() || t.free() == 0) return {};
  const std::size_t usable = model.back_off.usable_level(c);
  if (usable == c.levels.size()) return {};
  const PoolShare* const front = c.round.front();
  if (front == nullptr) return {};
  const Party* first = front->party;  // of those that may take a worker, the one with the fewest
  if (first->held() > 0 || first->most_workers == 0) {
    first = nullptr;
    c.round.for_each([&](const PoolShare& s) {
      const Party& p = *s.party;
      if (p.concurrency < p.most_workers && (first == nullptr || p.held() < first->held())) first = &p;
    });
  }
  if (first == nullptr || !model.options.fairness.allowed(first->held(), t.free())) return {};
  const microseconds opening = soonest_new(model, c, usable, first->held());
  if (opening == microseconds::max()) return {};
  double per_us = 0;
  std::size_t connections = 0;
  for (const auto& m : c.levels[usable]) {
    const Destination& d = *m->destination;
    if (d.connections.empty()) continue;
    const microseconds each = model.speed.expected_pace(d);
    if (each.count() == 0) return {};  // it is not known how long it takes
    connections += d.connections.size();
    per_us += static_cast<double>(d.connections.size()) / static_cast<double>(each.count());
  }
  const double wait = per_us > 0 ? static_cast<double>(c.pooled) / per_us : 1e12;
  // Both come from measures that change between the choice and this look at it.
  if (wait <= static_cast<double>(opening.count()) * (1 + kDrift)) return {};
  return std::to_string(c.pooled) + " jobs wait " + std::to_string(static_cast<std::uint64_t>(wait / 1000)) +
         " ms for " + std::to_string(connections) + " connections, and a further one would have done a job in " +
         std::to_string(opening.count() / 1000) + " ms (" + std::to_string(c.awake) + " wait for workers, " +
         std::to_string(c.others_can) + " were left to others)";
}
}  // namespace

}  // namespace pen::qmgr::scheduler

namespace pen::qmgr {

using namespace scheduler;

std::string Scheduler::needless_wait() const {
  std::string found;
  for (const auto& [key, d] : model_->routes.destinations()) {
    PEN_CHECK(d->open == std::ranges::count(d->connections, Connection::State::open, &Connection::state),
              "open connections are counted wrong");
    d->hungry.for_each([&](const Member& m) {
      const bool once = m.level == 0 && m.cluster->levels.front().front()->destination == d.get();
      if (found.empty() && once) found = scheduler::needless_wait(*model_, *m.cluster);
    });
  }
  return found;
}

}  // namespace pen::qmgr
