#include "qmgr/scheduler/finish.h"

#include <algorithm>

#include "qmgr/scheduler/probes.h"
#include "qmgr/scheduler/session_classes.h"

namespace pen::qmgr::scheduler {

namespace {
// Hosts that are quicker are filled by the dozen, whatever others there are.
constexpr milliseconds kQuick{20};
// Differences below this, or a 32nd, are noise.
constexpr milliseconds kNoise{5};
constexpr int kNoiseShare = 32;
// A worker moves only where it does so many times as much: it costs another connection, and the peer begins anew.
constexpr double kWorthMoving = 2;
}  // namespace

microseconds Finish::free_in(const Connection& c, microseconds each) const {
  // A connection that is late is taken to need as long again.
  const auto until = [this](SteadyTime t) {
    return std::chrono::abs(std::chrono::duration_cast<microseconds>(t - clock_.now));
  };
  const Destination& d = *c.destination;
  const auto held = static_cast<std::int64_t>(c.jobs());
  if (c.state == Connection::State::opening)
    return until(c.opened_at + d.facts.connect_time) + Speed::lead(d) + each * held;
  // What was handed out is on its way; what comes now takes what it would take alone, at least.
  const microseconds least = Speed::lead(d);
  const auto handed = static_cast<std::int64_t>(c.handed.size());
  const microseconds in_hand = handed == 0 ? least : until(c.flows_since + each * handed);
  return std::max(in_hand + each * (held - handed), least);
}

microseconds Finish::ends_in(const Connection& c) const {
  const microseconds each = speed_.expected_pace(*c.destination);
  return each.count() == 0 ? each : free_in(c, each) + each;
}

microseconds Finish::ends_in(const Destination& d) const {
  const microseconds each = speed_.expected(d);
  return each.count() == 0 ? each : d.facts.connect_time + Speed::alone(d);
}

std::size_t Finish::by_others(const std::vector<std::unique_ptr<Member>>& level, microseconds end, std::size_t enough,
                              const Connection* without, std::span<Destination* const> openable) const {
  end -= std::max<microseconds>(kNoise, end / kNoiseShare);
  std::size_t could = 0;
  for (const auto& m : level) {
    const Destination& d = *m->destination;
    const microseconds each = speed_.expected_pace(d);
    // A destination that keeps a pace, or holds its share, may not take it.
    if (each > end || back_off_.dead(d) || RateDelay::keeps_pace(d) || shares_.holds_its_share(d)) continue;
    if (each.count() == 0) {
      // Not known: rather one for each than two for a connection with something in hand.
      if (without != nullptr && !without->handed.empty()) could += d.connections.size();
      continue;
    }
    for (const Connection* c : d.connections) {
      if (c == without || c->jobs() == 0) continue;
      const microseconds rest = end - free_in(*c, each);
      if (rest >= each) could += static_cast<std::size_t>(rest / each);
      if (could >= enough) return could;
    }
  }
  for (const Destination* d : openable) {
    could += by_new_ones(*d, end);
    if (could >= enough) return could;
  }
  return could;
}

std::size_t Finish::by_new_ones(const Destination& d, microseconds end) const {
  const microseconds first = ends_in(d);
  if (first.count() == 0 || first > end) return 0;
  const microseconds each = speed_.expected_pace(d);
  const auto does = [&](microseconds opened) { return 1 + static_cast<std::size_t>((end - first - opened) / each); };
  const std::uint32_t limit = limits_.connections(d);
  std::uint32_t free = d.transport->free();
  const std::uint32_t now = std::min(limit - std::min(limit, d.holding), free);
  free -= now;
  std::size_t could = now * does(microseconds(0));
  // One connection more with each result.
  std::uint32_t later =
      std::min(limits_.connections_in_time(d) - std::min(limits_.connections_in_time(d), limit), free);
  for (const Connection* c : d.connections) {
    if (later == 0) break;
    if (c->handed.empty()) continue;
    const microseconds result =
        std::max(std::chrono::duration_cast<microseconds>(c->flows_since + each - clock_.now), microseconds(0));
    if (first + result > end) continue;
    could += does(result);
    --later;
  }
  return could;
}

Destination* Finish::worker_is_better_at(const Connection& c) const {
  const Destination& from = *c.destination;
  const Transport& t = *from.transport;
  if (t.limits.workers == 0 || t.free() > 0 || c.last_cluster == nullptr || !c.last_cluster->has_several() ||
      t.exclusive())
    return nullptr;
  const microseconds each = speed_.expected_pace(from);
  if (each < kQuick) return nullptr;
  const Cluster& cluster = *c.last_cluster;
  const std::size_t usable = back_off_.usable_level(cluster);
  if (usable == cluster.levels.size()) return nullptr;
  const auto& level = cluster.levels[usable];
  double per_us = 0;
  std::size_t number = cluster.pooled;
  for (const auto& m : level) {
    number += m->destination->waiting;
    if (const microseconds its = speed_.expected_pace(*m->destination); its.count() > 0)
      per_us += static_cast<double>(m->destination->connections.size()) / static_cast<double>(its.count());
  }
  if (per_us == 0 || cluster.pooled + c.waiting == 0) return nullptr;
  // What either host would do until all that waits is done.
  const double time = static_cast<double>(number) / per_us;
  double most = kWorthMoving * time / static_cast<double>(each.count());
  Destination* best = nullptr;
  for (const auto& m : level) {
    Destination& d = *m->destination;
    const microseconds its = speed_.expected_pace(d);
    if (&d == &from || its.count() == 0 || Probes::unproven(d) || !limits_.may_open(d) || !SessionClasses::possible(d))
      continue;
    const microseconds opening = d.facts.connect_time + Speed::path(d);
    const double does = (time - static_cast<double>(opening.count())) / static_cast<double>(its.count());
    if (does <= most) continue;
    most = does;
    best = &d;
  }
  return best;
}

bool Finish::leaves_to_others(const Connection& c, const Cluster& cluster, std::size_t further) const {
  const microseconds each = speed_.expected_pace(*c.destination);
  if (each < kQuick || (c.handed.empty() && (c.waiting > 0 || !cluster.has_several()))) return false;
  const std::size_t usable = back_off_.usable_level(cluster);
  if (usable == cluster.levels.size()) return false;
  const auto& level = cluster.levels[usable];
  const std::size_t number = cluster.pooled + c.waiting + further;
  if (number == 0) return false;
  const microseconds end = ends_in(c) - each * static_cast<std::int64_t>(c.waiting);
  // A connection with something in hand leaves it to new connections too: jobs that wait will open them.
  const bool to_new_ones = !c.handed.empty() && c.destination->transport->free() > 0;
  std::vector<Destination*> openable;
  // First without looking at each connection.
  std::size_t most = 0;
  for (const auto& m : level) {
    Destination& d = *m->destination;
    const microseconds its = speed_.expected_pace(d);
    std::size_t connections = d.connections.size();
    if (to_new_ones && its.count() > 0 && !Probes::unproven(d) && ends_in(d) < end && limits_.may_open_soon(d) &&
        SessionClasses::possible(d)) {
      openable.push_back(&d);
      connections = std::min<std::size_t>(limits_.connections_in_time(d), 2 * connections + limits_.connections(d));
    }
    most += connections * (its.count() > 0 ? static_cast<std::size_t>(end / its) : 1);
  }
  return most >= number && sooner_by_others(level, end, number, &c, openable);
}

}  // namespace pen::qmgr::scheduler
