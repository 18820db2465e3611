#include "qmgr/scheduler/pool.h"

#include <algorithm>

#include "qmgr/scheduler/destination.h"

namespace pen::qmgr::scheduler {

namespace {
// How soon a party that waits for limits looks again whatever happens.
constexpr auto kAtLatest = seconds(1);
// What is left to others is not looked at again sooner.
constexpr auto kLeastLeft = milliseconds(5);
}  // namespace

std::size_t Cluster::part_of_pool(std::size_t level, std::size_t behind) const {
  if (pooled + behind == 0) return 0;
  std::size_t connections = 0;
  for (const auto& m : levels[level]) connections += m->destination->connections.size();
  return (pooled + behind) / std::max<std::size_t>(connections, 1);
}

Claim& Pool::claim(Party& p, Transport& t, bool probe) {
  Claim* found = nullptr;
  p.each_claim([&](Claim& c) {
    if (c.transport == &t && c.probe == probe) found = &c;
  });
  if (found != nullptr) return *found;
  if (p.claim && !p.more_claims) p.more_claims = std::make_unique<Party::Claims>();
  Claim& c =
      p.claim ? *p.more_claims->emplace_back(std::make_unique<Claim>(&p, &t, probe)) : p.claim.emplace(&p, &t, probe);
  c.entry.seq = p.shared ? turn_++ : p.seq;
  c.entry.concurrency = p.concurrency;
  c.entry.most = p.most_workers;
  return c;
}

void Pool::wait_for(PoolShare& s, Waits waits, bool at_front) {
  s.waits = waits;
  if (s.party->seq == 0) s.party->seq = turn_++;
  Cluster& c = *s.cluster;
  if (waits == Waits::limits) {
    if (c.full.empty()) {
      for (auto& level : c.levels) {
        for (auto& m : level) m->destination->starved.push_back(m->starved);
      }
      look_at(c, clock_.now + kAtLatest);
    }
    if (at_front || s.turn().urgency == Urgency::urgent)
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

void Pool::end_wait(PoolShare& s) {
  s.waiting.unlink();
  Cluster& c = *s.cluster;
  if (s.claim == nullptr) {
    if (!c.full.empty()) return;
    for (auto& level : c.levels) {
      for (auto& m : level) m->starved.unlink();
    }
    look_at(c, kNever);
    c.others_can = 0;
    return;
  }
  --c.awake;
  if (s.claim->probe) --s.claim->transport->wanted_probes;
  if (s.claim->shares.empty()) s.claim->queue().remove(s.claim->entry);
  s.claim = nullptr;
}

void Pool::put(Job& j, Waits waits, bool at_front) {
  Cluster& c = *j.route->cluster;
  Party& party = *j.message->party;
  PoolShare* known = party.pooled.find(&c);
  if (known == nullptr || party.shared) {
    ++c.share_count;
    shares_.note(c);
  }
  if (known == nullptr) {
    known = &party.pooled.make(&c, &c, &party);
    known->since = clock_.now;
    // A party that looked in vain has not lost its place.
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

void Pool::take(Job& j) {
  PoolShare& s = *j.share;
  Cluster& c = *s.cluster;
  j.in_line.unlink();
  j.share = nullptr;
  if (s.waits != Waits::limits && !c.left.linked()) left_.push_back(c.left);
  if (--c.pooled == 0) {
    for (auto& level : c.levels) {
      for (auto& m : level) m->hungry.unlink();
    }
  }
  const bool last = --s.count == 0;
  if (last || s.party->shared) {
    --c.share_count;
    shares_.note(c);
  }
  if (!last) return;
  end_wait(s);
  c.round.remove(s.round);
  s.party->pooled.erase(&c);  // s dies with its entry
}

void Pool::probe_no_more(Cluster& c) {
  c.round.for_each([this](PoolShare& s) {
    if (s.waits != Waits::probe) return;
    end_wait(s);
    wait_for(s, Waits::limits);
  });
}

void Pool::leave_to_others(Cluster& c, std::size_t could, microseconds after) {
  if (c.full.empty()) return;
  c.others_can = could;
  look_at(c, clock_.now + (could > 0 ? std::clamp<microseconds>(after, kLeastLeft, kAtLatest) : kAtLatest));
}

void Pool::look_at(Cluster& c, SteadyTime when) {
  if (c.look_at != kNever) looks_.erase({c.look_at, &c});
  c.look_at = when;
  if (when != kNever) looks_.emplace(when, &c);
}

Cluster* Pool::take_due() {
  if (next_look() > clock_.now) return nullptr;
  Cluster& c = *looks_.begin()->second;
  look_at(c, clock_.now + kAtLatest);
  c.others_can = 0;
  return &c;
}

bool Pool::wake(Cluster& c) {
  PoolShare* s = c.full.front();
  if (s == nullptr || c.awake > 0 || left_to_others(c)) return false;
  end_wait(*s);
  wait_for(*s, Waits::worker);
  s->waits = Waits::worker;
  to_serve_.mark(*c.transport);
  return true;
}

}  // namespace pen::qmgr::scheduler
