/// The choice of a connection for a job, in the order of docs/design.md.
#include <algorithm>
#include <limits>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

namespace {
// How soon, with all destinations of a cluster at their limits, another job looks whether one of them rose.
constexpr auto kLookAgain = seconds(1);
}  // namespace

std::size_t Model::usable_level(const Cluster& c) const {
  for (std::size_t i = 0; i < c.levels.size(); ++i) {
    for (const auto& m : c.levels[i]) {
      if (!dead(*m->destination)) return i;
    }
  }
  return c.levels.size();
}

bool Model::schedule(Job& j, bool from_pool) {
  Transport& t = *j.route->cluster->transport;
  if (j.message->withdrawn) {
    actions.emplace_back(DeferRecipients{j.message->number,
                                         j.ordinals.all(),
                                         {mail::Action::deferred, "4.3.0", "withdrawn", {}, {}},
                                         "none",
                                         j.number,
                                         true});
    drop(j);
    return true;
  }
  if (j.expiry <= now) {
    reroute(j);
    return true;
  }
  if (!j.route->suspended.empty()) {
    defer(j, {mail::Action::deferred, "4.3.2", j.route->suspended, {}, {}}, "none");
    return true;
  }
  if (t.limits.deferred && !j.message->flushed) {
    defer(j, {mail::Action::deferred, "4.3.2", "deferred transport", {}, {}}, "none");
    return true;
  }
  if ((j.isolated || j.message->isolated) && t.solo != &j) {
    j.place = Job::Place::alone;
    t.alone.push_back(&j);
    mark_dirty(t);
    return true;
  }
  if (!t.up || draining || (t.exclusive() && t.solo != &j)) {
    pool(j, Waits::worker, from_pool);
    return false;
  }
  Cluster& c = *j.route->cluster;
  if (!from_pool && c.pooled > 0 && t.solo == nullptr &&
      (t.free() == 0 || (!c.full.empty() && now < c.looked + kLookAgain))) {
    // Others wait already, for a worker or because all destinations are at their limits: nothing to look for, and
    // looking walks over every connection. Whichever connection has room takes from the pool. (Limits that were learned
    // rise with time alone: so now and then somebody looks.)
    const PoolShare* before = j.message->party->pooled.find(&c);
    const Waits waits = t.free() == 0 ? Waits::worker : Waits::limits;
    pool(j, before != nullptr ? before->waits : waits, false);  // one that was woken stays awake
    return false;
  }
  c.looked = now;
  const std::size_t levels = c.levels.size();
  for (std::size_t i = 0; i < levels; ++i) {
    switch (try_level(j, i, from_pool)) {
      case Outcome::assigned:
        return true;
      case Outcome::pooled:
        return false;
      case Outcome::dead:
        break;  // none of these works: the next preference level
    }
  }
  defer_dead(j);
  return true;
}

Model::Chosen Model::choose(const Cluster& cluster, std::size_t index, std::uint64_t concurrency, bool alone) const {
  const auto& level = cluster.levels[index];
  const microseconds best = level.size() > 1 ? best_service_time(level) : microseconds(0);
  if (best.count() > 0) {
    // First without those that are much slower; they get what the others have no room for.
    Chosen chosen = choose(cluster, index, concurrency, alone, best);
    if (chosen.connection != nullptr ? chosen.rule != Choice::ride : !chosen.candidates.empty()) return chosen;
  }
  return choose(cluster, index, concurrency, alone, microseconds(0));
}

Model::Chosen Model::choose(const Cluster& cluster, std::size_t index, std::uint64_t concurrency, bool alone,
                            microseconds best) const {
  const auto& level = cluster.levels[index];
  const Transport& t = *cluster.transport;
  Chosen out;
  bool working = false;
  Connection* roomy = nullptr;   // the most recent active connection that is not backlogged
  Connection* newest = nullptr;  // the most recent active connection
  Connection* idle = nullptr;    // the most recent idle connection
  for (const auto& member : level) {
    const Destination& d = *member->destination;
    if (dead(d)) continue;
    working = true;
    if (holds_its_share(d)) continue;
    if (best.count() > 0 && measured_lately(d) && slow(d, best)) continue;
    for (auto it = d.connections.rbegin(); it != d.connections.rend(); ++it) {
      Connection* c = *it;
      if (c->jobs() == 0 && c->state == Connection::State::open) {
        if (idle != nullptr && c->number < idle->number) continue;
        if (!alone && leaves_to_others(*c, cluster, 1))
          out.to_others = true;
        else
          idle = c;
        continue;
      }
      if (newest == nullptr || c->number > newest->number) newest = c;
      if (backlogged(*c)) continue;
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
  if (alone || options.fairness.allowed(concurrency, t.free())) {
    if (idle != nullptr) {
      out.rule = Choice::idle;
      out.connection = idle;
      return out;
    }
    if (t.free() > 0) {
      const std::uint32_t probes = free_probes(t);
      pick_new(level, best, alone || (probes > 0 && options.fairness.allowed(concurrency, probes)), out);
      if (!out.candidates.empty()) return out;
    }
  }
  out.rule = Choice::wait;
  if (out.waits == Waits::limits && !alone) {
    // A ride would bind it to one connection; it waits for whichever has room first, if none has it now.
    out.connection = with_room(level);
    if (out.connection != nullptr) out.rule = Choice::ride;
  } else if (newest != nullptr) {
    Connection* ride = pick_ride(level, *newest);
    if (alone || ride->jobs() < std::size_t{options.backlog_threshold} * options.ride_limit) {
      out.rule = Choice::ride;
      out.connection = ride;
    }
  }
  return out;
}

namespace {
/// As allowed_new_worker() counts it: nobody goes beyond his own limit, however many workers are free.
std::uint64_t concurrency_of(const Party& p) {
  return p.concurrency < p.most_workers ? p.concurrency : std::numeric_limits<std::uint64_t>::max();
}
}  // namespace

Model::Outcome Model::try_level(Job& j, std::size_t index, bool from_pool) {
  Transport& t = *j.route->cluster->transport;
  const Chosen chosen = choose(*j.route->cluster, index, concurrency_of(*j.message->party), t.solo == &j);
  if (chosen.rule == Choice::nothing) return Outcome::dead;
  if (chosen.connection != nullptr) {
    assign(j, *chosen.connection);
    return Outcome::assigned;
  }
  if (chosen.rule == Choice::wait && t.solo == &j && t.free() == 0 && make_room_for_solo(t))
    return try_level(j, index, from_pool);
  if (chosen.rule == Choice::wait) {
    if (chosen.waits == Waits::limits && options.session_class) wait_for_session(j.route->cluster->levels[index]);
    if (chosen.to_others) j.route->cluster->left_to_others = event;
    pool(j, chosen.waits, from_pool);
    return Outcome::pooled;
  }
  Destination& d = *(chosen.candidates.size() == 1 ? chosen.candidates.front()
                                                   : chosen.candidates[random.below(chosen.candidates.size())]);
  if (t.limits.workers != 0 && t.connections >= t.limits.workers) close_one_idle(t);
  assign(j, open(d, j));
  return Outcome::assigned;
}

Connection* Model::with_room(const std::vector<std::unique_ptr<Member>>& level) const {
  Connection* best = nullptr;
  for (const auto& member : level) {
    if (dead(*member->destination) || holds_its_share(*member->destination)) continue;
    for (Connection* c : member->destination->connections) {
      if (c->state != Connection::State::open || c->waiting > 0 || !may_take(*c)) continue;
      if (c->handed.empty() && leaves_to_others(*c, *member->cluster, 1)) continue;
      if (best == nullptr || c->handed.size() < best->handed.size()) best = c;
    }
  }
  return best;
}

Connection* Model::pick_ride(const std::vector<std::unique_ptr<Member>>& level, const Connection& newest) const {
  // The first, most recent first, with fewer jobs than the newest; else the newest.
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

void Model::pick_new(const std::vector<std::unique_ptr<Member>>& level, microseconds best, bool may_probe,
                     Chosen& into) const {
  std::vector<Destination*> open_to, unused, retry, fewest;
  into.waits = Waits::limits;
  Destination* closed = nullptr;
  for (const auto& member : level) {
    Destination* d = member->destination;
    if (dead(*d) || full(*d) || must_pause(*d) || !session_possible(*d)) continue;
    if (holds_its_share(*d)) continue;
    if (best.count() > 0 && measured_lately(*d) && slow(*d, best)) continue;
    if (unproven(*d) && !may_probe) {
      if (d->holding == 0) into.waits = Waits::probe;  // else for what the first one meets
      continue;
    }
    open_to.push_back(d);
  }
  if (level.size() > 1 && !open_to.empty()) {
    drop_later(level, open_to);
    into.to_others = into.to_others || open_to.empty();
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

void Model::drop_later(const std::vector<std::unique_ptr<Member>>& level, std::vector<Destination*>& those) const {
  // A message alone goes to any host that is not slow, so that they share the load.
  const std::size_t pooled = level.front()->cluster->pooled;
  const bool alone = pooled == 0 && std::all_of(level.begin(), level.end(), [](const auto& m) {
                       return m->destination->waiting == 0 && m->destination->handed == 0;
                     });
  microseconds soonest = microseconds::max();
  for (const Destination* d : those) {
    if (const microseconds end = ends_in(*d); end.count() > 0) soonest = std::min(soonest, end);
  }
  std::vector<Destination*> kept;
  for (Destination* d : those) {
    const microseconds end = ends_in(*d);
    const bool later = end.count() > 0 &&
                       (alone ? much_longer(end, soonest) : sooner_by_others(level, end, pooled + 1, nullptr, those));
    if (!later) kept.push_back(d);
  }
  those = std::move(kept);
}

void Model::defer(Job& j, const mail::DeliveryStatus& status, std::string relay) {
  ++figures.deferred;
  actions.emplace_back(DeferRecipients{j.message->number, j.ordinals.all(), status, std::move(relay), j.number});
  drop(j);
}

void Model::defer_dead(Job& j) {
  // What the most preferred destination said last is what the sender's postmaster wants to read.
  for (const auto& level : j.route->cluster->levels) {
    for (const auto& m : level) {
      if (const auto& why = m->destination->suspended; !why.empty()) {
        defer(j, {mail::Action::deferred, "4.3.2", why, {}, {}}, "none");
        return;
      }
      const destdb::Facts& f = m->destination->facts;
      if (f.failures == 0) continue;
      table.doubted(m->destination->key, m->destination->address.address, f);
      mail::DeliveryStatus status{mail::Action::deferred,
                                  f.dsn.empty() ? "4.4.1" : f.dsn,
                                  f.reason.empty() ? "destination is not answering" : f.reason,
                                  {},
                                  {}};
      if (status.dsn.front() == '5') status.dsn.front() = '4';
      defer(j, status, "none");
      return;
    }
  }
  defer(j, {mail::Action::deferred, "4.4.4", "no destination to deliver to", {}, {}}, "none");
}

}  // namespace pen::qmgr::scheduler
