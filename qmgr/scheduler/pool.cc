/// Jobs that wait without a connection, and who takes them: free workers, connections with room,
/// idle connections.
///
/// Nobody waits for nothing: of the parties that wait in a cluster because its destinations are at their limits, one
/// is woken when a limit may have risen or a connection has gone (unblock()). It looks, and when it leaves, whatever
/// became of it, it wakes the next (Model::left); until one finds that the limits stand. So one that took nothing
/// passes its turn on, and of thousands that wait one looks in vain.
#include <algorithm>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

namespace {
constexpr int kTries = 8;  // clusters that a connection looks at for a job
}  // namespace

Claim& Model::claim(Party& p, Transport& t, bool probe) {
  Claim* found = nullptr;
  p.each_claim([&](Claim& c) {
    if (c.transport == &t && c.probe == probe) found = &c;
  });
  if (found != nullptr) return *found;
  if (p.claim && !p.more_claims) p.more_claims = std::make_unique<Party::Claims>();
  Claim& c =
      p.claim ? *p.more_claims->emplace_back(std::make_unique<Claim>(&p, &t, probe)) : p.claim.emplace(&p, &t, probe);
  c.entry.seq = p.shared ? next_seq++ : p.seq;
  c.entry.concurrency = p.concurrency;
  c.entry.most = p.most_workers;
  return c;
}

void Model::wait_for(PoolShare& s, Waits waits, bool at_front) {
  s.waits = waits;
  if (s.party->seq == 0) s.party->seq = next_seq++;
  Cluster& c = *s.cluster;
  if (waits == Waits::limits) {
    if (c.full.empty()) {
      for (auto& level : c.levels) {
        for (auto& m : level) m->destination->starved.push_back(m->starved);
      }
    }
    if (at_front)
      c.full.push_front(s.waiting);
    else
      c.full.push_back(s.waiting);
    return;
  }
  ++c.awake;
  s.claim = &claim(*s.party, *s.cluster->transport, waits == Waits::probe);
  s.claim->shares.push_back(s.waiting);
  if (s.claim->probe) ++s.claim->transport->wanted_probes;
  s.claim->queue().add(s.claim->entry);
}

void Model::end_wait(PoolShare& s) {
  s.waiting.unlink();
  Cluster& c = *s.cluster;
  if (s.claim == nullptr) {
    if (!c.full.empty()) return;
    for (auto& level : c.levels) {
      for (auto& m : level) m->starved.unlink();
    }
    return;
  }
  --c.awake;
  if (s.claim->probe) --s.claim->transport->wanted_probes;
  if (s.claim->shares.empty()) s.claim->queue().remove(s.claim->entry);
  s.claim = nullptr;
}

void Model::pool(Job& j, Waits waits, bool at_front) {
  Cluster& c = *j.route->cluster;
  Party& party = *j.message->party;
  PoolShare* known = party.pooled.find(&c);
  if (known == nullptr || party.shared) {
    ++c.share_count;
    note_share(c);
  }
  if (known == nullptr) {
    known = &party.pooled.make(&c, &c, &party);
    known->since = now;
    // Who looked in vain has not lost its place.
    if (at_front)
      c.round.push_front(known->round);
    else
      c.round.push_back(known->round);
    wait_for(*known, waits, at_front);
  } else if (known->waits != waits) {
    end_wait(*known);
    wait_for(*known, waits);
  }
  PoolShare& share = *known;
  if (c.pooled++ == 0) {
    for (auto& level : c.levels) {
      for (auto& m : level) m->destination->hungry.push_back(m->hungry);
    }
  }
  if (at_front) {
    share.jobs.push_front(j.in_line);
  } else {
    share.jobs.push_back(j.in_line);
  }
  ++share.count;
  j.share = &share;
  j.place = Job::Place::pooled;
}

void Model::unpool(Job& j) {
  PoolShare& s = *j.share;
  Cluster& c = *s.cluster;
  j.in_line.unlink();
  j.share = nullptr;
  if (s.waits != Waits::limits && !c.left.linked()) left.push_back(c.left);
  if (--c.pooled == 0) {
    for (auto& level : c.levels) {
      for (auto& m : level) m->hungry.unlink();
    }
  }
  const bool last = --s.count == 0;
  if (last || s.party->shared) {
    --c.share_count;
    note_share(c);
  }
  if (!last) return;
  end_wait(s);
  s.party->pooled.erase(&c);  // s dies with its entry
}

bool Model::wake(Cluster& c) {
  PoolShare* s = c.full.front();
  if (s == nullptr || c.awake > 0 || c.left_to_others == event) return false;
  end_wait(*s);
  wait_for(*s, Waits::worker);
  s->waits = Waits::worker;
  mark_dirty(*c.transport);
  return true;
}

bool Model::may_open(const Destination& d) const {
  return !dead(d) && !full(d) && !must_pause(d) && !holds_its_share(d);
}

void Model::unblock(Destination& d) {
  if (const Job* solo = d.transport->solo; solo != nullptr && solo->place == Job::Place::pooled)
    mark_dirty(*d.transport);  // whoever is woken below, it goes first
  Member* const last = d.starved.back();
  while (Member* m = d.starved.front()) {
    d.starved.rotate();
    Cluster& c = *m->cluster;
    const std::size_t usable = usable_level(c);
    if (usable == m->level) {
      if (wake(c)) return;
    } else if (usable < m->level) {
      // A backup only, for these; and a host that they prefer may have come back meanwhile, which nothing tells.
      const auto& level = c.levels[usable];
      const auto comes_next = [&](const auto& other) {
        return may_open(*other->destination) && session_possible(*other->destination);
      };
      if (std::any_of(level.begin(), level.end(), comes_next))
        wake(c);
      else if (options.session_class)
        wait_for_session(level);
    }
    if (m == last) return;
  }
}

void Model::unblock(Cluster& c) {
  for (auto& level : c.levels) {
    for (auto& m : level) {
      if (!m->destination->starved.empty() && may_open(*m->destination)) unblock(*m->destination);
    }
  }
}

void Model::recheck(Destination& d) {
  ++event;
  // After a failure: jobs that have no working destination left are deferred, others look again.
  if (dead(d)) {
    std::vector<Cluster*> hopeless;
    std::vector<Cluster*> others;  // they have another level to look at
    d.hungry.for_each([&](Member& m) {
      const bool none = usable_level(*m.cluster) == m.cluster->levels.size();
      (none ? hopeless : others).push_back(m.cluster);
    });
    for (Cluster* c : others) wake(*c);
    for (Cluster* c : hopeless) {
      while (PoolShare* s = c->round.front()) {
        Job& j = *s->jobs.front();
        unpool(j);
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
  if (holds_its_share(d)) return nullptr;
  const Member* left_at = nullptr;  // the first whose jobs had better wait for others
  for (int tries = 0; tries < kTries && !d.hungry.empty(); ++tries) {
    Member& m = *d.hungry.front();
    if (&m == left_at) return nullptr;
    d.hungry.rotate();
    if (usable_level(*m.cluster) != m.level) continue;
    // After a few it takes one all the same: nobody may look through all of them.
    if (c.handed.empty() && tries < kTries - 1 && leaves_to_others(c, *m.cluster, 0)) {
      if (left_at == nullptr) left_at = &m;
      continue;
    }
    PoolShare& s = *m.cluster->round.front();
    prefetch(*s.party);
    Job& j = *s.jobs.front();
    prefetch(j);
    m.cluster->round.rotate();
    unpool(j);
    if (m.cluster->pooled > 0) m.cluster->round.prefetch_front();  // for whoever pulls next
    attach(j, c);
    return &j;
  }
  return nullptr;
}

Job* Model::steal(Connection& c) {
  // A job that waits behind others on a connection to the same cluster moves to the one that is free.
  if (c.last_cluster == nullptr) return nullptr;
  // Taken to lie ready behind another, it would gain nothing.
  if (c.window <= 2 && !c.handed.empty()) return nullptr;
  const std::size_t usable = usable_level(*c.last_cluster);
  if (usable == c.last_cluster->levels.size()) return nullptr;
  Connection* victim = nullptr;
  for (const auto& m : c.last_cluster->levels[usable]) {
    if (m->destination->waiting == 0) continue;
    for (Connection* other : m->destination->connections) {
      if (other != &c && other->waiting > 0 && (victim == nullptr || other->waiting > victim->waiting)) victim = other;
    }
  }
  if (victim == nullptr) return nullptr;
  if (victim->destination != c.destination && holds_its_share(*c.destination)) return nullptr;
  if (const microseconds its = expected(*victim->destination); its.count() > 0 && ends_in(c) > free_in(*victim, its))
    return nullptr;  // it is as soon done there
  Job& j = *victim->round.front()->waiting.front();
  if (j.route->cluster->transport->solo == &j) return nullptr;
  const Cluster& wanted = *j.route->cluster;
  const std::size_t level = usable_level(wanted);
  if (level == wanted.levels.size()) return nullptr;
  const bool fits = std::any_of(wanted.levels[level].begin(), wanted.levels[level].end(),
                                [&](const auto& m) { return m->destination == c.destination; });
  if (!fits) return nullptr;
  unassign(j);
  attach(j, c);
  return &j;
}

void Model::pump_workers() {
  while (!dirty.empty()) {
    Transport& t = *dirty.back();
    dirty.pop_back();
    t.dirty = false;
    if (!t.up || draining) continue;
    if (t.exclusive()) {
      run_alone(t);
      continue;
    }
    resume(t);
    // Those that wait on after all, for the same as before, end the round: nothing is free for them.
    const auto serve = [this](Claim& claimed, Waits waits) {
      Job& j = *claimed.shares.front()->jobs.front();
      if (claimed.party->shared) {
        claimed.shares.rotate();
        to_the_end(claimed.queue(), claimed.entry);
      }
      unpool(j);
      if (schedule(j, true)) return true;
      // The others would look in vain; those of other clusters not, if it left something.
      if (Cluster& c = *j.route->cluster; j.share->waits == Waits::limits && c.left_to_others != event) c.left.unlink();
      return j.share->waits != waits;
    };
    for (;;) {  // first: their share is small, and kept for them
      Claim* claimed = t.probe_waiting.next(options.fairness, free_probes(t));
      if (claimed == nullptr || !serve(*claimed, Waits::probe)) break;
    }
    for (;;) {
      Claim* claimed = t.waiting.next(options.fairness, t.free());
      if (claimed == nullptr || !serve(*claimed, Waits::worker)) break;
    }
  }
}

}  // namespace pen::qmgr::scheduler
