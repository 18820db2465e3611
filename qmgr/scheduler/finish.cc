/// Who would have a job done first: what is expected of connections, by what their hosts took of late.
///
/// A job goes to no connection on which it would end later than the others of its level could end all that waits: a
/// host that takes ten seconds gets none of the last jobs of a burst that the rest is through with in two, and the
/// last jobs go to those connections that are free first. It is a guess, so it decides only where there is a choice,
/// and never against a connection that is not clearly later. What waits for others to take it is taken: only
/// connections count that work, and with each of their results they look for the next job; when one goes, those that
/// wait look again (pool.cc).
///
/// Where all workers are taken, a worker is what is scarce: the connection to a slow host closes when its worker
/// would do more at another host of the same level.
#include <algorithm>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

namespace {
// Hosts that are quicker are filled by the dozen, whoever else is there.
constexpr milliseconds kQuick{20};
// Differences below this, or a 32nd, are noise.
constexpr milliseconds kNoise{5};
constexpr int kNoiseShare = 32;
// A worker goes where it does so many times as much: another connection, and the peer begins anew.
constexpr double kWorthMoving = 2;
}  // namespace

microseconds Model::expected(const Destination& d) const {
  return measured_lately(d) ? d.facts.service_time : microseconds(0);
}

microseconds Model::path(const Destination& d) { return std::max(d.path, d.facts.round_trip); }

microseconds Model::free_in(const Connection& c, microseconds each) const {
  const auto until = [this](SteadyTime t) {
    return std::max(std::chrono::duration_cast<microseconds>(t - now), microseconds(0));
  };
  const Destination& d = *c.destination;
  const auto held = static_cast<std::int64_t>(c.jobs());
  if (c.state == Connection::State::opening) return until(c.opened_at + d.facts.connect_time) + path(d) + each * held;
  if (held == 0) return path(c);
  // What was handed out is on its way; what comes now takes the path's time at least.
  const auto handed = static_cast<std::int64_t>(c.handed.size());
  const microseconds in_hand = handed == 0 ? path(c) : until(c.flows_since + each * handed);
  return std::max(in_hand + each * (held - handed), path(c));
}

microseconds Model::ends_in(const Connection& c) const {
  const microseconds each = expected(*c.destination);
  return each.count() == 0 ? each : free_in(c, each) + each;
}

microseconds Model::ends_in(const Destination& d) const {
  const microseconds each = expected(d);
  return each.count() == 0 ? each : d.facts.connect_time + path(d) + each;
}

bool Model::sooner_by_others(const std::vector<std::unique_ptr<Member>>& level, microseconds end, std::size_t number,
                             const Connection* without, std::span<Destination* const> openable) const {
  end -= std::max<microseconds>(kNoise, end / kNoiseShare);
  std::size_t could = 0;
  for (const auto& m : level) {
    const Destination& d = *m->destination;
    const microseconds each = expected(d);
    // What keeps a pace, or holds its share, may not take it.
    if (each > end || dead(d) || keeps_pace(d) || holds_its_share(d)) continue;
    if (each.count() == 0) {
      // Nobody knows: rather one for each than two for who has something in hand.
      if (without != nullptr && !without->handed.empty()) could += d.connections.size();
      continue;
    }
    for (const Connection* c : d.connections) {
      if (c == without || c->jobs() == 0) continue;
      const microseconds rest = end - free_in(*c, each);
      if (rest >= each) could += static_cast<std::size_t>(rest / each);
      if (could >= number) return true;
    }
  }
  for (const Destination* d : openable) {
    const microseconds first = ends_in(*d);
    if (first.count() == 0 || first > end) continue;
    const std::uint32_t more = connection_limit(*d) - std::min(connection_limit(*d), d->holding);
    could += std::min(more, d->transport->free()) * (1 + static_cast<std::size_t>((end - first) / expected(*d)));
    if (could >= number) return true;
  }
  return false;
}

Destination* Model::worker_is_better_at(const Connection& c) const {
  const Destination& from = *c.destination;
  const Transport& t = *from.transport;
  if (t.limits.workers == 0 || t.free() > 0 || c.last_cluster == nullptr || !c.last_cluster->has_several() ||
      t.exclusive())
    return nullptr;
  const microseconds each = expected(from);
  if (each < kQuick) return nullptr;
  const Cluster& cluster = *c.last_cluster;
  const std::size_t usable = usable_level(cluster);
  if (usable == cluster.levels.size()) return nullptr;
  const auto& level = cluster.levels[usable];
  double per_us = 0;
  std::size_t number = cluster.pooled;
  for (const auto& m : level) {
    number += m->destination->waiting;
    if (const microseconds its = expected(*m->destination); its.count() > 0)
      per_us += static_cast<double>(m->destination->connections.size()) / static_cast<double>(its.count());
  }
  if (per_us == 0 || cluster.pooled + c.waiting == 0) return nullptr;
  // What either would do until all that waits is done.
  const double time = static_cast<double>(number) / per_us;
  double most = kWorthMoving * time / static_cast<double>(each.count());
  Destination* best = nullptr;
  for (const auto& m : level) {
    Destination& d = *m->destination;
    const microseconds its = expected(d);
    if (&d == &from || its.count() == 0 || unproven(d) || !may_open(d) || !session_possible(d)) continue;
    const microseconds opening = d.facts.connect_time + path(d);
    const double does = (time - static_cast<double>(opening.count())) / static_cast<double>(its.count());
    if (does <= most) continue;
    most = does;
    best = &d;
  }
  return best;
}

void Model::move_worker(Connection& c, Destination& to) {
  Job* j = nullptr;
  if (c.waiting > 0) {
    j = c.round.front()->waiting.front();
    unassign(*j);
  } else {
    PoolShare& share = *c.last_cluster->round.front();
    c.last_cluster->round.rotate();
    j = share.jobs.front();
    unpool(*j);
  }
  assign(*j, open(to, *j));
  retire(c);
}

bool Model::leaves_to_others(const Connection& c, const Cluster& cluster, std::size_t further) const {
  const microseconds each = expected(*c.destination);
  if (each < kQuick || (c.handed.empty() && (c.waiting > 0 || !cluster.has_several()))) return false;
  const std::size_t usable = usable_level(cluster);
  if (usable == cluster.levels.size()) return false;
  const auto& level = cluster.levels[usable];
  const std::size_t number = cluster.pooled + c.waiting + further;
  if (number == 0) return false;
  const microseconds end = ends_in(c) - each * static_cast<std::int64_t>(c.waiting);
  // First without looking at each connection.
  std::size_t most = 0;
  for (const auto& m : level) {
    const Destination& d = *m->destination;
    if (d.connections.empty()) continue;
    const microseconds its = expected(d);
    most += d.connections.size() * (its.count() > 0 ? static_cast<std::size_t>(end / its) : 1);
  }
  return most >= number && sooner_by_others(level, end, number, &c, {});
}

}  // namespace pen::qmgr::scheduler
