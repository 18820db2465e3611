/// Connections: opening, handing out within the window, falling idle, growing old, closing.
#include <algorithm>

#include "lib/mail/stated_delay.h"
#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

using ipc::delivery::Trouble;

void Model::concurrency_changed(Party& p, int by) {
  p.concurrency = static_cast<std::uint32_t>(static_cast<std::int64_t>(p.concurrency) + by);
  p.each_claim([&](Claim& c) {
    c.queue().update(c.entry, p.concurrency);
    if (by < 0 && !c.shares.empty()) to_serve.mark(*c.transport);
  });
}

void Model::tenant_on(Connection& c, Tenant* tenant, int parties) {
  if (tenant == nullptr) return;
  auto at = std::ranges::find(c.tenants, tenant, &std::pair<Tenant*, std::uint32_t>::first);
  if (at == c.tenants.end()) {
    at = c.tenants.emplace(at, tenant, 0);
    ++tenant->concurrency;
  }
  at->second += static_cast<std::uint32_t>(parties);
  if (at->second > 0) return;
  *at = c.tenants.back();
  c.tenants.pop_back();
  --tenant->concurrency;
  may_have_more(*tenant);
}

void Model::may_have_more(Tenant& tenant) {
  tenant.may_have_more([this](const void* queue) {
    for (auto& [name, t] : routes.transports())
      if (queue == &t->waiting || queue == &t->probe_waiting) to_serve.mark(*t);
  });
}

Connection& Model::open(Destination& d, const Job& cause) {
  auto owned = std::make_unique<Connection>();
  Connection& c = *owned;
  c.number = next_connection_++;
  c.opened_at = clock.now;
  c.destination = &d;
  c.quota = ceilings.quota_of(d);
  memory.refresh(d);
  if (d.holding == 0) limits.begin(d);
  connections.emplace(c.number, std::move(owned));
  d.connections.push_back(&c);
  ++d.holding;
  if (d.provider != nullptr) ++d.provider->holding;
  ++d.transport->connections;
  d.transport->all.push_back(c.in_all);
  if (Probes::unproven(d)) probes.begin(c);
  ++figures.connections_opened;
  d.heard_until = clock.now + kHeardFor;
  OpenConnection& action = std::get<OpenConnection>(actions.emplace_back(OpenConnection{
      c.number, d.address, cause.route->nexthop, d.key, limits.connections(d), d.facts.step_by_step_until > clock.wall,
      d.facts.clear_text_until > clock.wall && Ceilings::may_go_clear(d)}));
  if (d.session_class != nullptr) action.session_class = d.session_class->number;
  session_classes.ask(c);
  return c;
}

void Model::assign(Job& j, Connection& c) {
  attach(j, c);
  hand_out(c);
}

void Model::attach(Job& j, Connection& c) {
  unset_idle(c);
  Party& party = *j.message->party;
  ConnectionShare* known = party.carried.find(&c);
  if (known == nullptr) {
    known = &party.carried.make(&c, &party);
    tenant_on(c, party.tenant, 1);
    concurrency_changed(party, 1);
  }
  ConnectionShare& share = *known;
  if (share.waiting.empty()) c.round.push_back(share.round);
  share.waiting.push_back(j.in_line);
  ++share.jobs;
  ++c.waiting;
  ++c.destination->waiting;
  if (!c.in_waits.linked()) wait_from_now(c);
  j.connection = &c;
  j.place = Job::Place::backlog;
  c.last_cluster = j.route->cluster;
}

void Model::unassign(Job& j) {
  Connection& c = *j.connection;
  ConnectionShare& share = *j.message->party->carried.find(&c);
  if (j.place == Job::Place::handed) {
    if (j.under_way != 0) ended_at_gates(j);
    c.handed.erase(std::find(c.handed.begin(), c.handed.end(), &j));
    --c.destination->transport->in_hand;
    --c.destination->handed;
    --figures.in_hand;
    c.stuck = false;
    if (c.in_waits.linked()) wait_from_now(c);
  } else {
    j.in_line.unlink();
    --c.destination->waiting;
    if (--c.waiting == 0) c.in_waits.unlink();
    if (share.waiting.empty()) share.round.unlink();
  }
  j.connection = nullptr;
  j.place = Job::Place::forming;
  if (--share.jobs == 0) {
    j.message->party->carried.erase(&c);
    tenant_on(c, j.message->party->tenant, -1);
    concurrency_changed(*j.message->party, -1);
  }
}

void Model::hand(Connection& c, Job& j) {
  ConnectionShare& share = *j.message->party->carried.find(&c);
  j.in_line.unlink();
  --c.destination->waiting;
  if (--c.waiting == 0) c.in_waits.unlink();
  if (share.waiting.empty()) share.round.unlink();
  end_joining(j);
  j.place = Job::Place::handed;
  if (c.handed.empty()) c.flows_since = clock.now + Speed::lead(*c.destination);
  c.handed.push_back(&j);
  ceilings.handed(c);
  ++c.destination->transport->in_hand;
  ++c.destination->handed;
  ++figures.in_hand;
  rate_delay.begun(*c.destination->transport);
  if (shaping.on()) begin_at_gates(j);
  prefetch(*c.handed.front());  // will be done next
  actions.emplace_back(HandJob{c.number, j.number, j.message->number, c.destination->transport->name, j.route->nexthop,
                               j.ordinals.all(), may_go_on(j, *c.destination), j.rewritten});
  if (shaping.on()) shaping.tell_rules(*j.route->cluster, std::get<HandJob>(actions.back()));
}

void Model::hand_out(Connection& c) {
  if (c.state != Connection::State::open || draining) return;
  if (rate_delay.must_pause(*c.destination)) return;  // end_pauses() goes on
  Transport& t = *c.destination->transport;
  if (t.exclusive()) {
    Job* j = t.solo;
    if (j != nullptr && j->connection == &c && j->place == Job::Place::backlog && t.in_hand == 0) {
      if (j->expiry <= clock.now) {
        reroute(*j);
      } else {
        hand(c, *j);
      }
    }
    return;
  }
  while (windows.may_take(c)) {
    // Jobs that rode along take turns with those in the pool, and messages take turns in either.
    Job* next = nullptr;
    if (c.waiting == 0 || (c.from_pool = !c.from_pool)) next = pull(c);
    if (next == nullptr && c.waiting == 0) next = steal(c);
    if (next == nullptr && c.waiting == 0) break;
    if (next == nullptr) {
      next = c.round.front()->waiting.front();
      c.round.rotate(next->ordinals.size());
    }
    Job& j = *next;
    if (j.expiry <= clock.now) {
      reroute(j);
      continue;
    }
    if (shaping.on() && sent_back(j)) continue;
    hand(c, j);
  }
}

void Model::set_idle(Connection& c) {
  if (c.state != Connection::State::open || c.in_idle.linked()) return;
  Transport& t = *c.destination->transport;
  c.idle_since = clock.now;
  t.idle.push_back(c.in_idle);
  ++t.idle_count;
  to_serve.mark(t);
  if (SessionClass* s = c.destination->session_class; s != nullptr) {
    s->idle.push_back(c.in_class_idle);
    if (s->full && !s->waiting.empty()) session_classes.mark(*s);
  }
}

void Model::unset_idle(Connection& c) {
  if (!c.in_idle.linked()) return;
  c.in_idle.unlink();
  c.in_class_idle.unlink();
  --c.destination->transport->idle_count;
}

std::vector<Job*> Model::take_waiting(Connection& c) {
  std::vector<Job*> again;
  while (ConnectionShare* s = c.round.front()) {
    Job& j = *s->waiting.front();
    unassign(j);
    again.push_back(&j);
  }
  return again;
}

void Model::wait_from_now(Connection& c) {
  c.in_waits.unlink();
  c.waits_since = clock.now;
  c.destination->transport->waits.push_back(c.in_waits);
}

/// A job was put behind another that should take moments, but takes long: a mailbox is locked, a peer hangs. No result
/// comes that would make another connection look for it.
void Model::free_from_stuck(Transport& t) {
  while (Connection* c = t.waits.front()) {
    if (c->waits_since + kStuckPatience > clock.now) return;
    wait_from_now(*c);  // and looked at again then
    const bool others = t.idle.front() != nullptr || t.free() > 0;
    if (!others || !t.up || draining || t.exclusive() || c->state != Connection::State::open || c->handed.empty() ||
        clock.now - c->flows_since < 2 * speed.expected(*c->destination))
      continue;
    c->stuck = true;
    for (Job* j : take_waiting(*c)) schedule(*j);
  }
}

void Model::send_close(Connection& c) {
  if (c.close_sent) return;
  c.close_sent = true;
  actions.emplace_back(CloseConnection{c.number, c.destination->transport->name});
}

void Model::takes_no_more(Connection& c) {
  Destination& d = *c.destination;
  const auto it = std::find(d.connections.begin(), d.connections.end(), &c);
  if (it == d.connections.end()) return;
  d.connections.erase(it);
  if (c.state == Connection::State::open) --d.open;
}

void Model::retire(Connection& c) {
  // The connection takes no more jobs; those that were not begun go elsewhere; it closes when those in hand are done.
  if (c.state == Connection::State::retiring) return;
  unset_idle(c);
  probes.end(c);
  c.in_age.unlink();
  Destination& d = *c.destination;
  limits.note_use(d);
  takes_no_more(c);
  c.state = Connection::State::retiring;
  c.last_cluster = nullptr;
  d.facts.last_close = clock.wall;
  memory.keep(d);
  const std::vector<Job*> again = take_waiting(c);
  send_close(c);
  if (c.handed.empty()) left(c);
  for (Job* j : again) schedule(*j);
}

void Model::left(Connection& c) {
  if (Group* const provider = c.destination->provider; provider != nullptr) provider->left = clock.now;
  erase(c);
}

void Model::erase(Connection& c) {
  Destination& d = *c.destination;
  Transport& t = *d.transport;
  unset_idle(c);
  session_classes.answered(c);
  probes.end(c);
  takes_no_more(c);
  --d.holding;
  if (d.provider != nullptr) --d.provider->holding;
  --t.connections;
  if (c.yields) t.yielding = false;
  connections.erase(c.number);
  to_serve.mark(t);
  ++d.references;  // stays while jobs move
  recheck(d);
  if (d.provider != nullptr) unblock(*d.provider);
  --d.references;
  routes.drop_if_unused(d);
}

std::optional<SourceBlock> Model::closed(Connection& c, bool was_opened, Trouble trouble,
                                         const mail::DeliveryStatus& status, const std::vector<JobNumber>& unstarted) {
  Destination& d = *c.destination;
  Transport& t = *d.transport;
  const bool by_words =
      trouble == Trouble::peer_421 || trouble == Trouble::greeting_4xx || trouble == Trouble::greeting_5xx;
  const EndComplaint complaint = shaping.on() && by_words ? complained_at_close(c, was_opened, status) : EndComplaint{};
  std::vector<Job*> again, lost;
  // The peer's end may come in the same turn as the result that moved these jobs up: the program has
  // not seen them.
  std::vector<JobNumber> unsent;
  std::erase_if(actions, [&](const Action& a) {
    const auto* hand = std::get_if<HandJob>(&a);
    if (hand == nullptr || hand->connection != c.number) return false;
    unsent.push_back(hand->job);
    return true;
  });
  const auto in = [](const std::vector<JobNumber>& list, JobNumber job) {
    return std::find(list.begin(), list.end(), job) != list.end();
  };
  for (Job* j : c.handed) {
    const bool clean = in(unstarted, j->number) || in(unsent, j->number);
    (clean ? again : lost).push_back(j);
  }
  for (Job* j : take_waiting(c)) again.push_back(j);
  for (Job* j : again) {
    if (j->place == Job::Place::handed) unassign(*j);
  }
  for (Job* j : lost) unassign(*j);
  if (!lost.empty()) rate_delay.pause(d);
  const std::uint64_t done = c.done, served = c.served;
  const bool had_work = !again.empty() || !lost.empty();
  const bool cut_short = c.cut_short;
  unset_idle(c);
  takes_no_more(c);
  // A peer's broken TLS is no reason to wait where TLS may be left out: the next connection does without.
  const bool broken_tls = trouble == Trouble::tls && Ceilings::may_go_clear(d);
  if (broken_tls) ceilings.learn_clear_text(d);
  // After deliveries the peer has a right to close, unless it says when to come back. Within the first transaction it
  // may have been the message's fault: then the host has failed when the next ones went the same way.
  const bool served_nothing = cut_short ? served == 0 && HostOrder::breaks_again(d) : done == 0 && had_work;
  const bool failure =
      was_opened ? trouble != Trouble::none && !broken_tls &&
                       (served_nothing || (trouble == Trouble::peer_421 && mail::stated_delay(status).has_value()))
                 : trouble != Trouble::replaced && trouble != Trouble::source && !broken_tls && !complaint.rests;
  if (failure) {
    back_off.failed(d, trouble, status);
    memory.keep(d);
  } else {
    if (was_opened && trouble != Trouble::none && done > 0 && !cut_short) ceilings.learn_quota(d, done);
    d.facts.last_close = clock.wall;
    memory.keep(d);
  }
  const std::string relay = d.address.shown(), source = d.address.source;
  // Holds the destination while its jobs move.
  ++d.references;
  erase(c);
  for (Job* j : lost) {
    defer(*j, status, relay);
  }
  for (Job* j : again) {
    ++figures.rescheduled;
    if ((trouble == Trouble::source || complaint.block) && !j->message->withdrawn)
      reroute(*j);  // to another source
    else
      schedule(*j);
  }
  if (complaint.block) reroute_source(source);
  recheck(d);
  if (t.exclusive()) to_serve.mark(t);
  --d.references;
  routes.drop_if_unused(d);
  return complaint.block;
}

void Model::drop(Job& j) {
  Message& m = *j.message;
  Transport& t = *j.route->cluster->transport;
  if (j.share != nullptr) pool.take(j);
  if (j.gated != nullptr || j.passed != 0) leave_gates(j);
  if (j.connection != nullptr) {
    Connection& c = *j.connection;
    unassign(j);
    if (c.jobs() == 0) set_idle(c);
  }
  const bool alone = t.solo == &j || j.place == Job::Place::alone;
  if (t.solo == &j) t.solo = nullptr;
  if (j.place == Job::Place::alone) std::erase(t.alone, &j);
  end_joining(j);
  --m.job_count;
  RouteSet& route = *j.route;
  const JobNumber number = j.number;
  jobs.destroy(number);
  routes.release(route);
  if (alone) alone_ended(t);
}

void Model::spread(Connection& c) {
  Transport& t = *c.destination->transport;
  if (c.state != Connection::State::open || RateDelay::keeps_pace(*c.destination)) return;
  const auto behind = [&] {
    if (c.last_cluster == nullptr || c.last_cluster->pooled == 0) return std::size_t{0};
    const std::size_t usable = back_off.usable_level(*c.last_cluster);
    return usable == c.last_cluster->levels.size() ? 0 : c.last_cluster->part_of_pool(usable);
  };
  for (std::size_t n = c.waiting; n > 0 && c.waiting > 0 && windows.backlogged(c, behind()); --n) {
    if (!t.up || draining || t.exclusive() || t.free() == 0) return;
    Job& j = *c.round.back()->waiting.back();
    const Cluster& cluster = *j.route->cluster;
    const std::size_t usable = back_off.usable_level(cluster);
    if (usable == cluster.levels.size()) return;
    const auto& level = cluster.levels[usable];
    if (std::none_of(level.begin(), level.end(), [this](const auto& m) {
          return limits.may_open(*m->destination) && SessionClasses::possible(*m->destination);
        }))
      return;
    if (!options.fairness.allowed(j.message->party->held(), t.free())) return;
    unassign(j);
    schedule(j);
  }
}

void Model::move_worker(Connection& c, Destination& to) {
  Job* j = nullptr;
  if (c.waiting > 0) {
    j = c.round.front()->waiting.front();
    unassign(*j);
  } else {
    PoolShare& share = *c.last_cluster->round.front();
    c.last_cluster->round.rotate(share.jobs.front()->ordinals.size());
    j = share.jobs.front();
    pool.take(*j);
  }
  assign(*j, open(to, *j));
  retire(c);
}

bool Model::yields(const Connection& c) const {
  const Transport& t = *c.destination->transport;
  const Claim* const first = t.waiting.urgent();
  // It may be idle for this moment.
  const std::uint32_t others_free = t.free() - (c.in_idle.linked() ? 1 : 0);
  if (first == nullptr || t.yielding || others_free > 0 || t.exclusive()) return false;
  if (!options.fairness.allowed(first->party->held(), 1)) return false;
  // Where connections are, one of them takes it in its turn.
  const auto served = [](const Cluster& cluster) {
    return std::ranges::any_of(cluster.levels, [](const auto& level) {
      return std::ranges::any_of(level, [](const auto& m) { return !m->destination->connections.empty(); });
    });
  };
  if (const PoolShare* const share = first->shares.front(); share == nullptr || served(*share->cluster)) return false;
  const auto urgent = [](const auto* share) { return share != nullptr && share->turn().urgency == Urgency::urgent; };
  return !urgent(c.round.front()) && (c.last_cluster == nullptr || !urgent(c.last_cluster->round.front()));
}

void Model::yield(Connection& c) {
  c.yields = c.destination->transport->yielding = true;
  Destination& d = *c.destination;
  ++d.references;  // stays while its jobs move
  const std::vector<Job*> again = take_waiting(c);
  retire(c);
  pump_workers();
  for (Job* j : again) schedule(*j);
  --d.references;
  routes.drop_if_unused(d);
}

void Model::give_back(Destination& d, std::uint32_t keep) {
  // The idle ones first, then those with the fewest jobs.
  std::vector<Connection*> all = d.connections;
  std::sort(all.begin(), all.end(), [](const Connection* a, const Connection* b) {
    return std::pair(a->jobs(), a->number) < std::pair(b->jobs(), b->number);
  });
  ++d.references;  // stays while its connections go
  for (Connection* c : all) {
    if (d.connections.size() <= keep) break;
    retire(*c);
  }
  --d.references;
  routes.drop_if_unused(d);
}

void Model::end_pauses() {
  while (Destination* const d = rate_delay.take_ended()) {
    ++d->references;
    for (Connection* c : std::vector<Connection*>(d->connections)) {
      hand_out(*c);
      if (c->jobs() == 0) set_idle(*c);
    }
    unblock(*d);
    --d->references;
    routes.drop_if_unused(*d);
  }
  while (Transport* const t = rate_delay.take_ended_transport()) {
    // There is one worker: a connection with jobs goes on, or those that wait get their turn by age.
    std::vector<Connection*> open;
    t->all.for_each([&](Connection& c) { open.push_back(&c); });
    for (Connection* c : open) {
      if (rate_delay.must_pause(*c->destination)) break;
      hand_out(*c);
      if (c->jobs() == 0) set_idle(*c);
    }
    for (const auto& [key, d] : routes.destinations())
      if (d->transport == t && !d->starved.empty() && limits.may_open(*d)) unblock(*d);
    to_serve.mark(*t);
  }
}

void Model::abandon_probes(Transport& t) {
  for (Connection* c : probes.overdue(t, t.up && !draining && !t.exclusive())) {
    send_close(*c);
    closed(*c, false, Trouble::timed_out, probes.given_up(*c), {});
  }
}

void Model::retire_spent() {
  while (const auto number = ceilings.take_spent()) {
    const auto it = connections.find(*number);
    if (it != connections.end()) retire(*it->second);
  }
}

}  // namespace pen::qmgr::scheduler
