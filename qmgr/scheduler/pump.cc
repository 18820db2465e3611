/// What takes from the pool (pool.h): free workers, connections with room, idle connections.
#include <algorithm>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

namespace {
constexpr int kTries = 8;  // clusters that a connection looks at for a job
}  // namespace

void Model::unblock(Destination& d) {
  if (const Job* solo = d.transport->solo; solo != nullptr && solo->place == Job::Place::pooled)
    to_serve.mark(*d.transport);  // it goes first, whatever is woken below
  Member* const last = d.starved.back();
  while (Member* m = d.starved.front()) {
    d.starved.rotate();
    Cluster& c = *m->cluster;
    const std::size_t usable = back_off.usable_level(c);
    if (usable == m->level) {
      if (pool.wake(c)) return;
    } else if (usable < m->level) {
      // A backup only, for these; and a host that they prefer may have come back meanwhile without an event.
      const auto& level = c.levels[usable];
      const auto comes_next = [&](const auto& other) {
        return limits.may_open(*other->destination) && SessionClasses::possible(*other->destination);
      };
      if (std::any_of(level.begin(), level.end(), comes_next))
        pool.wake(c);
      else if (session_classes.exist())
        wait_for_session(level);
    }
    if (m == last) return;
  }
}

void Model::limit_rose(Destination& d) {
  d.starved.for_each([](Member& m) { Pool::others_changed(*m.cluster); });
  unblock(d);
}

void Model::unblock(Group& provider) {
  if (shaping.connections(provider) == kNoLimit) return;
  std::vector<Destination*> hosts;
  provider.hosts.for_each([&](Destination& d) {
    if (!d.starved.empty()) hosts.push_back(&d);
  });
  if (hosts.empty()) return;
  // In turn, however many hosts it has.
  provider.hosts.rotate();
  for (Destination* d : hosts) ++d->references;
  for (Destination* d : hosts)
    if (limits.may_open(*d)) unblock(*d);
  for (Destination* d : hosts) {
    --d->references;
    routes.drop_if_unused(*d);
  }
}

void Model::unblock(Cluster& c) {
  for (auto& level : c.levels) {
    for (auto& m : level) {
      if (!m->destination->starved.empty() && limits.may_open(*m->destination)) unblock(*m->destination);
    }
  }
}

void Model::look_again(Cluster& c) {
  const std::size_t usable = back_off.usable_level(c);
  if (usable == c.levels.size()) return;
  const auto& level = c.levels[usable];
  if (std::any_of(level.begin(), level.end(), [&](const auto& m) {
        const Destination& d = *m->destination;
        return limits.may_open(d) && SessionClasses::possible(d) && !d.denied;
      }))
    pool.wake(c);
}

void Model::proven(Destination& d) {
  if (Probes::unproven(d)) return;
  d.hungry.for_each([this](Member& m) { pool.probe_no_more(*m.cluster); });
}

void Model::recheck(Destination& d) {
  d.starved.for_each([](Member& m) { Pool::others_changed(*m.cluster); });
  if (back_off.dead(d)) {
    std::vector<Cluster*> hopeless;
    std::vector<Cluster*> others;  // they have another level to look at
    d.hungry.for_each([&](Member& m) {
      const bool none = back_off.usable_level(*m.cluster) == m.cluster->levels.size();
      (none ? hopeless : others).push_back(m.cluster);
    });
    for (Cluster* c : others) pool.wake(*c);
    for (Cluster* c : hopeless) {
      while (PoolShare* s = c->round.front()) {
        Job& j = *s->jobs.front();
        pool.take(j);
        j.place = Job::Place::forming;
        defer_dead(j);
      }
    }
  }
  unblock(d);
}

Job* Model::pull(Connection& c) {
  // The next pooled job that this connection may carry, going round the clusters and in each round
  // the messages.
  Destination& d = *c.destination;
  if (shares.holds_its_share(d)) return nullptr;
  const Member* left_at = nullptr;  // the first with jobs that had better wait for others
  for (int tries = 0; tries < kTries && !d.hungry.empty(); ++tries) {
    Member& m = *d.hungry.front();
    if (&m == left_at) return nullptr;
    d.hungry.rotate();
    if (back_off.usable_level(*m.cluster) != m.level) continue;
    // After a few tries it takes one all the same: a look through all of them would take too long.
    if (c.handed.empty() && tries < kTries - 1 && finish.leaves_to_others(c, *m.cluster, 0)) {
      if (left_at == nullptr) left_at = &m;
      continue;
    }
    PoolShare& s = *m.cluster->round.front();
    prefetch(*s.party);
    Job& j = *s.jobs.front();
    prefetch(j);
    m.cluster->round.rotate(j.ordinals.size());
    pool.take(j);
    if (m.cluster->pooled > 0) m.cluster->round.prefetch_front();  // for the next pull
    attach(j, c);
    return &j;
  }
  return nullptr;
}

Job* Model::steal(Connection& c) {
  // A job that waits behind others on a connection to the same cluster moves to the one that is free.
  if (c.last_cluster == nullptr) return nullptr;
  // A job that is taken only to lie ready behind another gains nothing.
  if (c.window <= 2 && !c.handed.empty()) return nullptr;
  const std::size_t usable = back_off.usable_level(*c.last_cluster);
  if (usable == c.last_cluster->levels.size()) return nullptr;
  Connection* victim = nullptr;
  for (const auto& m : c.last_cluster->levels[usable]) {
    if (m->destination->waiting == 0) continue;
    for (Connection* other : m->destination->connections) {
      if (other != &c && other->waiting > 0 && (victim == nullptr || other->waiting > victim->waiting)) victim = other;
    }
  }
  if (victim == nullptr) return nullptr;
  if (victim->destination != c.destination && shares.holds_its_share(*c.destination)) return nullptr;
  if (const microseconds its = speed.expected_pace(*victim->destination);
      its.count() > 0 && finish.ends_in(c) > finish.free_in(*victim, its))
    return nullptr;  // it is done as soon there
  Job& j = *victim->round.front()->waiting.front();
  if (j.route->cluster->transport->solo == &j) return nullptr;
  const Cluster& wanted = *j.route->cluster;
  const std::size_t level = back_off.usable_level(wanted);
  if (level == wanted.levels.size()) return nullptr;
  const bool fits = std::any_of(wanted.levels[level].begin(), wanted.levels[level].end(),
                                [&](const auto& m) { return m->destination == c.destination; });
  if (!fits) return nullptr;
  unassign(j);
  attach(j, c);
  if (victim->state == Connection::State::opening && victim->jobs() == 0) left_empty_.push_back(victim->number);
  return &j;
}

void Model::give_up_empty() {
  for (const ConnectionNumber number : std::exchange(left_empty_, {})) {
    const auto it = connections.find(number);
    if (it == connections.end()) continue;
    Connection& c = *it->second;
    if (c.state != Connection::State::opening || c.jobs() > 0) continue;
    const Destination& d = *c.destination;
    // If nothing else is open to a host, it shows whether the host works.
    const bool works = std::any_of(d.connections.begin(), d.connections.end(),
                                   [](const Connection* o) { return o->state == Connection::State::open; });
    if (works && d.hungry.empty()) retire(c);
  }
}

void Model::pump_workers() {
  while (!to_serve.empty()) {
    Transport& t = to_serve.take();
    if (!t.up || draining) continue;
    if (t.exclusive()) {
      run_alone(t);
      continue;
    }
    resume(t);
    // Parties that go on waiting for the same as before end the round: nothing is free for them.
    const auto serve = [this](Claim& claimed, Waits waits) {
      Job& j = *claimed.shares.front()->jobs.front();
      if (claimed.party->shared) {
        claimed.shares.rotate();
        to_the_end(claimed.queue(), claimed.entry);
      }
      auto& queue = claimed.queue();
      Tenant* const tenant = claimed.party->tenant;
      const UrgencyTurn its_turn = claimed.turn();
      const std::size_t recipients = j.ordinals.size();
      pool.take(j);
      if (schedule(j, true)) {
        queue.served(tenant, its_turn, recipients);
        return true;
      }
      // The others of the cluster would look in vain; those of other clusters would not, if it left something.
      if (Cluster& c = *j.route->cluster; j.share->waits == Waits::limits && !pool.left_to_others(c)) c.left.unlink();
      return j.share->waits != waits;
    };
    for (;;) {  // first: their share is small, and kept for them
      Claim* claimed = t.probe_waiting.next(options.fairness, Probes::free(t));
      if (claimed == nullptr || !serve(*claimed, Waits::probe)) break;
    }
    for (;;) {
      Claim* claimed = t.waiting.next(options.fairness, t.free());
      if (claimed == nullptr || !serve(*claimed, Waits::worker)) break;
    }
  }
}

}  // namespace pen::qmgr::scheduler
