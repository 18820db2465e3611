#include "qmgr/scheduler/choose.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "qmgr/scheduler/probes.h"
#include "qmgr/scheduler/session_classes.h"

namespace pen::qmgr::scheduler {

namespace {
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
}  // namespace

Chooser::Chosen Chooser::choose(const Cluster& cluster, std::size_t index, std::uint64_t concurrency, bool alone,
                                std::size_t behind) const {
  const auto& level = cluster.levels[index];
  const microseconds best = level.size() > 1 ? speed_.best_of(level) : microseconds(0);
  if (best.count() > 0) {
    // First without the hosts that are much slower; they get what the others have no room for.
    Chosen chosen = choose(cluster, index, concurrency, alone, behind, best);
    if (chosen.connection != nullptr ? chosen.rule != Choice::ride : !chosen.candidates.empty()) return chosen;
  }
  return choose(cluster, index, concurrency, alone, behind, microseconds(0));
}

Chooser::Chosen Chooser::choose(const Cluster& cluster, std::size_t index, std::uint64_t concurrency, bool alone,
                                std::size_t behind, microseconds best) const {
  const auto& level = cluster.levels[index];
  const Transport& t = *cluster.transport;
  Chosen out;
  bool working = false;
  const std::size_t pooled = cluster.part_of_pool(index, behind);
  Connection* roomy = nullptr;   // the most recent active connection that is not backlogged
  Connection* newest = nullptr;  // the most recent active connection
  Connection* idle = nullptr;    // the most recent idle connection
  for (const auto& member : level) {
    const Destination& d = *member->destination;
    if (back_off_.dead(d)) continue;
    working = true;
    if (shares_.holds_its_share(d)) continue;
    if (speed_.slow(d, best)) continue;
    for (auto it = d.connections.rbegin(); it != d.connections.rend(); ++it) {
      Connection* c = *it;
      if (c->jobs() == 0 && c->state == Connection::State::open) {
        if (idle != nullptr && c->number < idle->number) continue;
        if (!alone && finish_.leaves_to_others(*c, cluster, 1)) {
          out.others_take = finish_.ends_in(*c);
          out.others_can = finish_.by_others(level, out.others_take, kAll, c, {});
        } else {
          idle = c;
        }
        continue;
      }
      if (newest == nullptr || c->number > newest->number) newest = c;
      if (windows_.backlogged(*c, pooled)) continue;
      if (roomy == nullptr || c->number > roomy->number) roomy = c;
      break;  // no older one of this destination is wanted
    }
  }
  if (!working) return out;
  // 1. An active connection with room, the most recent first: older ones fall idle when the load goes down.
  if (roomy != nullptr) {
    out.rule = Choice::room;
    out.connection = roomy;
    return out;
  }
  // 2. and 3. A new worker, or a free ride.
  if (alone || options_.fairness.allowed(concurrency, t.free())) {
    if (idle != nullptr) {
      out.rule = Choice::idle;
      out.connection = idle;
      return out;
    }
    if (t.free() > 0) {
      const std::uint32_t probes = Probes::free(t);
      pick_new(level, best, alone || (probes > 0 && options_.fairness.allowed(concurrency, probes)), behind, out);
      if (!out.candidates.empty()) return out;
    }
  }
  out.rule = Choice::wait;
  if (out.waits == Waits::limits && !alone) {
    // A ride would bind the job to one connection; it waits for the first connection with room if there is none now.
    out.connection = with_room(level);
    if (out.connection != nullptr) out.rule = Choice::ride;
  } else if (newest != nullptr) {
    Connection* ride = pick_ride(level, *newest);
    if (alone || ride->jobs() < std::size_t{options_.backlog_threshold} * options_.ride_limit) {
      out.rule = Choice::ride;
      out.connection = ride;
    }
  }
  return out;
}

Connection* Chooser::with_room(const Level& level) const {
  Connection* best = nullptr;
  for (const auto& member : level) {
    if (back_off_.dead(*member->destination) || shares_.holds_its_share(*member->destination)) continue;
    for (Connection* c : member->destination->connections) {
      if (c->state != Connection::State::open || c->waiting > 0 || !windows_.may_take(*c)) continue;
      if (finish_.leaves_to_others(*c, *member->cluster, 1)) continue;
      if (best == nullptr || c->handed.size() < best->handed.size()) best = c;
    }
  }
  return best;
}

Connection* Chooser::pick_ride(const Level& level, const Connection& newest) {
  // The most recent connection with fewer jobs than the newest; else the newest.
  const Connection* best = &newest;
  bool found = false;
  for (const auto& member : level) {
    for (const Connection* c : member->destination->connections) {
      if (c->jobs() == 0 && c->state == Connection::State::open) continue;  // idle: would be a new worker
      if (c->jobs() < newest.jobs() && (!found || c->number > best->number)) {
        best = c;
        found = true;
      }
    }
  }
  return const_cast<Connection*>(best);
}

void Chooser::pick_new(const Level& level, microseconds best, bool may_probe, std::size_t behind, Chosen& into) const {
  std::vector<Destination*> open_to, unused, retry, fewest;
  into.waits = Waits::limits;
  Destination* closed = nullptr;
  bool proven = false;
  for (const auto& member : level) {
    Destination* d = member->destination;
    proven = proven || (!back_off_.dead(*d) && !Probes::unproven(*d));
    if (back_off_.dead(*d) || limits_.full(*d) || rate_delay_.must_pause(*d) || !SessionClasses::possible(*d)) continue;
    if (shares_.holds_its_share(*d)) continue;
    if (speed_.slow(*d, best)) continue;
    if (Probes::unproven(*d) && !may_probe) {
      if (d->holding == 0) into.waits = Waits::probe;  // else for what the first one meets
      continue;
    }
    open_to.push_back(d);
  }
  if (proven) into.waits = Waits::limits;  // of those that work, before a probe
  if (!open_to.empty()) {
    drop_later(level, behind, open_to, into);
  }
  for (Destination* d : open_to) {
    if (!d->connections.empty()) {
      if (!fewest.empty() && d->connections.size() < fewest.front()->connections.size()) fewest.clear();
      if (fewest.empty() || d->connections.size() == fewest.front()->connections.size()) fewest.push_back(d);
    } else if (!d->known) {
      unused.push_back(d);
    } else if (d->facts.failures > 0) {
      retry.push_back(d);
    } else if (closed == nullptr || d->facts.last_close < closed->facts.last_close) {
      closed = d;
    }
  }
  const auto take = [&into](Choice rule, std::vector<Destination*> candidates) {
    into.rule = rule;
    into.candidates = std::move(candidates);
  };
  if (!unused.empty())
    take(Choice::unused, std::move(unused));
  else if (closed != nullptr)
    take(Choice::closed, {closed});
  else if (!retry.empty())
    take(Choice::retry, std::move(retry));
  else if (!fewest.empty())
    take(Choice::fewest, std::move(fewest));
}

void Chooser::drop_later(const Level& level, std::size_t behind, std::vector<Destination*>& those, Chosen& into) const {
  // A message alone goes to any host that is not slow, so that they share the load.
  const std::size_t pooled = level.front()->cluster->pooled + behind;
  const bool alone = pooled == 0 && std::all_of(level.begin(), level.end(), [](const auto& m) {
                       return m->destination->waiting == 0 && m->destination->handed == 0;
                     });
  microseconds soonest = microseconds::max();
  for (const Destination* d : those) {
    if (const microseconds end = finish_.ends_in(*d); end.count() > 0) soonest = std::min(soonest, end);
  }
  std::vector<Destination*> kept;
  for (Destination* d : those) {
    const microseconds end = finish_.ends_in(*d);
    const bool later = end.count() > 0 && (alone ? Speed::much_longer(end, soonest)
                                                 : finish_.sooner_by_others(level, end, pooled + 1, nullptr, those));
    if (!later) kept.push_back(d);
  }
  // A connection costs something: so the busy ones may take a little longer.
  if (!alone && soonest != microseconds::max()) {
    microseconds least = kept.empty() ? soonest : microseconds::max();
    const bool unmeasured = std::ranges::any_of(kept, [&](auto* d) { return finish_.ends_in(*d).count() == 0; });
    if (unmeasured) least = microseconds(0);
    if (!kept.empty() && !unmeasured) {
      for (const Destination* d : those)
        if (const microseconds end = finish_.ends_in(*d); end.count() > 0)
          least = std::min(least, end - d->facts.connect_time + finish_.worth_opening(*d));
    }
    const std::size_t could = finish_.by_others(level, least, kAll, nullptr, {});
    if (kept.empty() || could > pooled) {
      kept.clear();
      into.others_take = least;
      into.others_can = could;
    }
  }
  those = std::move(kept);
}

}  // namespace pen::qmgr::scheduler
