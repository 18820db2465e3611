/// A job that has no place gets one: on a connection, in the pool, or it is deferred.
#include <limits>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

bool Model::schedule(Job& j, bool from_pool) {
  Transport& t = *j.route->cluster->transport;
  if (j.message->withdrawn) {
    actions.emplace_back(DeferRecipients{j.message->number, j.ordinals.all(),
                                         mail::make_status(mail::Action::deferred, "4.3.0", "withdrawn"), "none",
                                         j.number, true});
    drop(j);
    return true;
  }
  if (j.expiry <= clock.now) {
    reroute(j);
    return true;
  }
  if (!j.route->suspended.empty()) {
    defer(j, mail::make_status(mail::Action::deferred, "4.3.2", j.route->suspended), "none");
    return true;
  }
  if (t.limits.deferred && !j.message->flushed) {
    defer(j, mail::make_status(mail::Action::deferred, "4.3.2", "deferred transport"), "none");
    return true;
  }
  if ((j.isolated || j.message->isolated) && t.solo != &j) {
    j.place = Job::Place::alone;
    t.alone.push_back(&j);
    to_serve.mark(t);
    return true;
  }
  if (t.solo != &j && !pass_gates(j)) return true;
  if (!t.up || draining || (t.exclusive() && t.solo != &j)) {
    pool.put(j, Waits::worker, from_pool);
    return false;
  }
  Cluster& c = *j.route->cluster;
  if (!from_pool && stands_behind(c)) {
    const PoolShare* before = j.message->party->pooled.find(&c);
    const Waits waits = t.free() == 0 ? Waits::worker : Waits::limits;
    pool.put(j, before != nullptr ? before->waits : waits, false);  // one that was woken stays awake
    if (Pool::too_many_for_others(c)) pool.wake(c);
    return false;
  }
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

namespace {
/// As allowed_new_worker() counts it: no party goes beyond its own limit, however many workers are free.
std::uint64_t concurrency_of(const Party& p) {
  return p.concurrency < p.most_workers ? p.held() : std::numeric_limits<std::uint64_t>::max();
}
}  // namespace

Model::Outcome Model::try_level(Job& j, std::size_t index, bool from_pool) {
  Transport& t = *j.route->cluster->transport;
  const Chooser::Chosen chosen = chooser.choose(*j.route->cluster, index, concurrency_of(*j.message->party),
                                                t.solo == &j, shaping.waiting_behind(j));
  if (chosen.rule == Choice::nothing) return Outcome::dead;
  if (chosen.connection != nullptr) {
    // Room for one job in hand is for this job: another from the pool would leave it bound to wait there.
    if (chosen.rule == Choice::ride && chosen.waits == Waits::limits) chosen.connection->from_pool = true;
    assign(j, *chosen.connection);
    return Outcome::assigned;
  }
  if (chosen.rule == Choice::wait && t.solo == &j && t.free() == 0 && make_room_for_solo(t))
    return try_level(j, index, from_pool);
  if (chosen.rule == Choice::wait) {
    if (chosen.waits == Waits::limits && session_classes.exist()) wait_for_session(j.route->cluster->levels[index]);
    pool.put(j, chosen.waits, from_pool);
    if (chosen.waits == Waits::limits) pool.leave_to_others(*j.route->cluster, chosen.others_can, chosen.others_take);
    return Outcome::pooled;
  }
  Destination& d = *(chosen.candidates.size() == 1 ? chosen.candidates.front()
                                                   : chosen.candidates[random.below(chosen.candidates.size())]);
  if (t.limits.workers != 0 && t.connections >= t.limits.workers)
    if (Connection* idle = t.idle.front()) retire(*idle);
  assign(j, open(d, j));
  return Outcome::assigned;
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
        defer(j, mail::make_status(mail::Action::deferred, "4.3.2", why), "none");
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
  defer(j, mail::make_status(mail::Action::deferred, "4.4.4", "no destination to deliver to"), "none");
}

}  // namespace pen::qmgr::scheduler
