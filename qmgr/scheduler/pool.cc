/// Jobs that wait without a connection, and who takes them: free workers, connections with room,
/// idle connections.
#include <algorithm>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

Claim& Model::claim(Message& m, Transport& t) {
  Claim* found = nullptr;
  m.each_claim([&](Claim& c) {
    if (c.transport == &t) found = &c;
  });
  if (found != nullptr) return *found;
  Claim& c = m.claim ? *m.more_claims.emplace_back(std::make_unique<Claim>(&m, &t))
                     : m.claim.emplace(&m, &t);
  c.entry.seq = m.seq;
  c.entry.concurrency = m.concurrency;
  return c;
}

void Model::make_candidate(PoolShare& s) {
  s.candidate = true;
  Claim& c = *s.claim;
  c.shares.push_back(s.waiting);
  c.transport->waiting.add(c.entry);
  mark_dirty(*c.transport);
}

void Model::pool(Job& j, bool candidate, bool at_front) {
  Cluster& c = *j.route->cluster;
  PoolShare* known = j.message->pooled.find(&c);
  const bool fresh = known == nullptr;
  if (fresh) {
    Claim& mine = claim(*j.message, *c.transport);
    known = &j.message->pooled.make(&c, &c, j.message, &mine);
    known->since = now;
    c.round.push_back(known->round);
    ++c.share_count;
    note_share(c);
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
  if (candidate && (fresh || !share.candidate)) {
    const bool was_dirty = c.transport->dirty;
    make_candidate(share);
    // Nothing became free by this: do not look again because of it.
    if (!was_dirty && c.transport->dirty && dirty.back() == c.transport) {
      c.transport->dirty = false;
      dirty.pop_back();
    }
  } else if (!candidate && (fresh || share.candidate)) {
    Claim& mine = *share.claim;
    share.candidate = false;
    c.full.push_back(share.waiting);
    if (mine.shares.empty()) c.transport->waiting.remove(mine.entry);
  }
}

void Model::unpool(Job& j) {
  PoolShare& s = *j.share;
  Cluster& c = *s.cluster;
  j.in_line.unlink();
  j.share = nullptr;
  if (--c.pooled == 0) {
    for (auto& level : c.levels) {
      for (auto& m : level) m->hungry.unlink();
    }
  }
  if (--s.count > 0) return;
  s.waiting.unlink();
  Claim& mine = *s.claim;
  if (mine.shares.empty()) c.transport->waiting.remove(mine.entry);
  s.message->pooled.erase(&c);  // s dies with its entry
  --c.share_count;
  note_share(c);
}

void Model::unblock(Destination& d) {
  // One connection less: let a few of those that waited for it try for a worker. Connections with
  // room take the rest anyway.
  int left = 4;
  for (int tries = 0; tries < 4 && left > 0 && !d.hungry.empty(); ++tries) {
    Cluster& c = *d.hungry.front()->cluster;
    d.hungry.rotate();
    while (left > 0) {
      PoolShare* s = c.full.pop_front();
      if (s == nullptr) break;
      make_candidate(*s);
      --left;
    }
    mark_dirty(*c.transport);
  }
}

void Model::recheck(Destination& d) {
  // After a failure: jobs that have no working destination left are deferred, others look again.
  if (dead(d)) {
    std::vector<Cluster*> hopeless;
    d.hungry.for_each([&](Member& m) {
      if (usable_level(*m.cluster) == m.cluster->levels.size()) hopeless.push_back(m.cluster);
    });
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

bool Model::pull(Connection& c) {
  // The next pooled job that this connection may carry, going round the clusters and in each round
  // the messages.
  Destination& d = *c.destination;
  for (int tries = 0; tries < 8 && !d.hungry.empty(); ++tries) {
    Member& m = *d.hungry.front();
    d.hungry.rotate();
    if (usable_level(*m.cluster) != m.level) continue;
    PoolShare& s = *m.cluster->round.front();
    prefetch(*s.message);
    Job& j = *s.jobs.front();
    prefetch(j);
    m.cluster->round.rotate();
    unpool(j);
    attach(j, c);
    return true;
  }
  return false;
}

bool Model::steal(Connection& c) {
  // A job that waits behind others on a connection to the same cluster moves to the one that is free.
  if (c.last_cluster == nullptr) return false;
  const std::size_t usable = usable_level(*c.last_cluster);
  if (usable == c.last_cluster->levels.size()) return false;
  Connection* victim = nullptr;
  for (const auto& m : c.last_cluster->levels[usable]) {
    if (m->destination->waiting == 0) continue;
    for (Connection* other : m->destination->connections) {
      if (other != &c && other->waiting > 0 &&
          (victim == nullptr || other->waiting > victim->waiting))
        victim = other;
    }
  }
  if (victim == nullptr) return false;
  Job& j = *victim->round.front()->waiting.front();
  if (j.route->cluster->transport->solo == &j) return false;
  const Cluster& wanted = *j.route->cluster;
  const std::size_t level = usable_level(wanted);
  if (level == wanted.levels.size()) return false;
  const bool fits = std::any_of(wanted.levels[level].begin(), wanted.levels[level].end(),
                                [&](const auto& m) { return m->destination == c.destination; });
  if (!fits) return false;
  unassign(j);
  attach(j, c);
  return true;
}

void Model::pump_workers() {
  while (!dirty.empty()) {
    Transport& t = *dirty.back();
    dirty.pop_back();
    t.dirty = false;
    if (!t.up || draining) continue;
    for (;;) {
      Claim* claimed = t.waiting.next(options.fairness, t.free());
      if (claimed == nullptr) break;
      PoolShare& s = *claimed->shares.front();
      Job& j = *s.jobs.front();
      unpool(j);
      if (!schedule(j, true) && j.share->candidate)
        break;  // waits on: nothing is free for it after all
    }
  }
}

}  // namespace pen::qmgr::scheduler
