/// Connections: opening, handing out within the window, falling idle, growing old, closing; jobs
/// that run alone.
#include <algorithm>

#include "lib/mail/stated_delay.h"
#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

using ipc::delivery::Trouble;

namespace {
// How long everything else waits for limits that keep a job that runs alone from its connection.
constexpr seconds kSoloPatience{10};
}  // namespace

void Model::concurrency_changed(Party& p, int by) {
  p.concurrency = static_cast<std::uint32_t>(static_cast<std::int64_t>(p.concurrency) + by);
  p.each_claim([&](Claim& c) {
    c.queue().update(c.entry, p.concurrency);
    if (by < 0 && !c.shares.empty()) mark_dirty(*c.transport);
  });
}

Connection& Model::open(Destination& d, const Job& cause) {
  auto owned = std::make_unique<Connection>();
  Connection& c = *owned;
  c.number = next_connection++;
  c.opened_at = now;
  c.destination = &d;
  c.quota = quota_of(d);
  connections.emplace(c.number, std::move(owned));
  d.connections.push_back(&c);
  ++d.holding;
  ++d.transport->connections;
  d.transport->all.push_back(c.in_all);
  if (unproven(d)) probe_begins(c);
  ++figures.connections_opened;
  d.heard_until = now + kHeardFor;
  OpenConnection& action = std::get<OpenConnection>(actions.emplace_back(
      OpenConnection{c.number, d.address, cause.route->nexthop, d.key, connection_limit(d),
                     d.facts.step_by_step_until > wall, d.facts.clear_text_until > wall && may_go_clear(d)}));
  if (d.session_class != nullptr) action.session_class = d.session_class->number;
  ask_for_session(c);
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
    concurrency_changed(party, 1);
  }
  ConnectionShare& share = *known;
  if (share.waiting.empty()) c.round.push_back(share.round);
  share.waiting.push_back(j.in_line);
  ++share.jobs;
  ++c.waiting;
  ++c.destination->waiting;
  j.connection = &c;
  j.place = Job::Place::backlog;
  c.last_cluster = j.route->cluster;
}

void Model::unassign(Job& j) {
  Connection& c = *j.connection;
  ConnectionShare& share = *j.message->party->carried.find(&c);
  if (j.place == Job::Place::handed) {
    c.handed.erase(std::find(c.handed.begin(), c.handed.end(), &j));
    --c.destination->transport->in_hand;
    --c.destination->handed;
    --figures.in_hand;
  } else {
    j.in_line.unlink();
    --c.waiting;
    --c.destination->waiting;
    if (share.waiting.empty()) share.round.unlink();
  }
  j.connection = nullptr;
  j.place = Job::Place::forming;
  if (--share.jobs == 0) {
    j.message->party->carried.erase(&c);
    concurrency_changed(*j.message->party, -1);
  }
}

void Model::hand(Connection& c, Job& j) {
  ConnectionShare& share = *j.message->party->carried.find(&c);
  j.in_line.unlink();
  --c.waiting;
  --c.destination->waiting;
  if (share.waiting.empty()) share.round.unlink();
  end_joining(j);
  j.place = Job::Place::handed;
  if (c.handed.empty()) c.flows_since = now + path(c);
  c.handed.push_back(&j);
  if (c.spent()) spent.push_back(c.number);
  ++c.destination->transport->in_hand;
  ++c.destination->handed;
  ++figures.in_hand;
  prefetch(*c.handed.front());  // will be done next
  actions.emplace_back(HandJob{c.number, j.number, j.message->number, c.destination->transport->name, j.route->nexthop,
                               j.ordinals.all(), may_go_on(j, *c.destination)});
}

void Model::hand_out(Connection& c) {
  if (c.state != Connection::State::open || draining) return;
  if (must_pause(*c.destination)) return;  // end_pauses() goes on
  Transport& t = *c.destination->transport;
  if (t.exclusive()) {
    Job* j = t.solo;
    if (j != nullptr && j->connection == &c && j->place == Job::Place::backlog && t.in_hand == 0) {
      if (j->expiry <= now) {
        reroute(*j);
      } else {
        hand(c, *j);
      }
    }
    return;
  }
  while (may_take(c)) {
    // What rode along takes turns with what waits in the pool, and in either the messages do.
    Job* next = nullptr;
    if (c.waiting == 0 || (c.from_pool = !c.from_pool)) next = pull(c);
    if (next == nullptr && c.waiting == 0) next = steal(c);
    if (next == nullptr && c.waiting == 0) break;
    if (next == nullptr) {
      next = c.round.front()->waiting.front();
      c.round.rotate();
    }
    Job& j = *next;
    if (j.expiry <= now) {
      reroute(j);
      continue;
    }
    hand(c, j);
  }
}

void Model::run_alone(Transport& t) {
  if (t.solo == nullptr) {
    if (t.in_hand > 0) return;
    t.solo = t.alone.front();
    t.alone.pop_front();
  } else if (t.solo->place == Job::Place::pooled) {
    unpool(*t.solo);
  } else {
    return;
  }
  Job& j = *t.solo;
  if (t.solo_until == kNever)
    t.solo_until = now + std::max<microseconds>(kSoloPatience, t.limits.rate_delay + seconds(1));
  j.place = Job::Place::forming;
  schedule(j, true);
  if (t.solo != &j || j.place != Job::Place::pooled) return;
  // The others of its cluster would look in vain as well.
  j.route->cluster->left.unlink();
  free_leases_for(j);
}

void Model::free_leases_for(const Job& solo) {
  const Transport& t = *solo.route->cluster->transport;
  const auto wanted = [&](const SessionClass* s) {
    if (s == nullptr || !s->full) return false;
    const auto& levels = solo.route->cluster->levels;
    return std::any_of(levels.begin(), levels.end(), [s](const auto& level) {
      return std::any_of(level.begin(), level.end(), [s](const auto& m) { return m->destination->session_class == s; });
    });
  };
  std::vector<ConnectionNumber> holders;
  t.all.for_each([&](const Connection& c) {
    if (c.state != Connection::State::retiring && wanted(c.destination->session_class)) holders.push_back(c.number);
  });
  for (const ConnectionNumber number : holders) {
    if (t.solo != &solo) return;  // its last host has gone with a connection, and it is deferred
    if (const auto c = connections.find(number); c != connections.end()) retire(*c->second);
  }
}

void Model::give_up_solo(Transport& t) {
  if (t.solo_until > now) return;
  t.solo_until = kNever;
  // While nothing may move it is not its own limits that hold it up.
  Job* const j = t.solo;
  if (j == nullptr || !t.up || draining) return;
  const bool stands = j->place == Job::Place::pooled ||
                      (j->place == Job::Place::backlog && j->connection->state == Connection::State::open);
  if (stands)
    defer(*j,
          {mail::Action::deferred,
           "4.4.5",
           "it is to be delivered alone, and no connection was to be had for it",
           {},
           {}},
          "none");
}

bool Model::make_room_for_solo(Transport& t) {
  PEN_CHECK(t.in_hand == 0, "a job runs beside one that runs alone");
  Connection* oldest = nullptr;
  t.all.for_each([&](Connection& c) {
    if (oldest == nullptr && c.state != Connection::State::retiring) oldest = &c;
  });
  if (oldest == nullptr) return false;  // one that retires is about to go
  retire(*oldest);
  return true;
}

void Model::alone_ended(Transport& t) {
  if (t.solo == nullptr) t.solo_until = kNever;
  mark_dirty(t);
  if (!t.exclusive()) t.resumes = true;
}

void Model::resume(Transport& t) {
  if (!t.resumes) return;
  t.resumes = false;
  std::vector<Connection*> all;
  t.all.for_each([&](Connection& c) { all.push_back(&c); });
  for (Connection* c : all) hand_out(*c);
  for (Connection* c : all) {  // one may have taken another's jobs
    if (c->jobs() == 0) set_idle(*c);
  }
}

void Model::set_idle(Connection& c) {
  if (c.state != Connection::State::open || c.in_idle.linked()) return;
  Transport& t = *c.destination->transport;
  c.idle_since = now;
  t.idle.push_back(c.in_idle);
  ++t.idle_count;
  mark_dirty(t);
  if (SessionClass* s = c.destination->session_class; s != nullptr) {
    s->idle.push_back(c.in_class_idle);
    if (s->full && !s->waiting.empty()) mark_class(*s);
  }
}

void Model::unset_idle(Connection& c) {
  if (!c.in_idle.linked()) return;
  c.in_idle.unlink();
  c.in_class_idle.unlink();
  --c.destination->transport->idle_count;
}

void Model::send_close(Connection& c) {
  if (c.close_sent) return;
  c.close_sent = true;
  actions.emplace_back(CloseConnection{c.number, c.destination->transport->name});
}

void Model::retire(Connection& c) {
  // Takes no more jobs; those that were not begun go elsewhere; closes when those in hand are done.
  if (c.state == Connection::State::retiring) return;
  unset_idle(c);
  probe_ended(c);
  c.in_age.unlink();
  c.state = Connection::State::retiring;
  c.last_cluster = nullptr;
  Destination& d = *c.destination;
  d.connections.erase(std::find(d.connections.begin(), d.connections.end(), &c));
  d.facts.last_close = wall;
  remember(d);
  std::vector<Job*> again;
  while (ConnectionShare* s = c.round.front()) {
    Job& j = *s->waiting.front();
    unassign(j);
    again.push_back(&j);
  }
  send_close(c);
  if (c.handed.empty()) erase(c);
  for (Job* j : again) schedule(*j);
}

void Model::close_one_idle(Transport& t) {
  if (Connection* c = t.idle.front()) retire(*c);
}

void Model::erase(Connection& c) {
  Destination& d = *c.destination;
  Transport& t = *d.transport;
  unset_idle(c);
  session_answered(c);
  probe_ended(c);
  if (auto it = std::find(d.connections.begin(), d.connections.end(), &c); it != d.connections.end()) {
    d.connections.erase(it);
  }
  --d.holding;
  --t.connections;
  connections.erase(c.number);
  mark_dirty(t);
  ++d.references;  // stays while jobs move
  recheck(d);
  --d.references;
  drop_if_unused(d);
}

void Model::closed(Connection& c, bool was_opened, Trouble trouble, const mail::DeliveryStatus& status,
                   const std::vector<JobNumber>& unstarted) {
  Destination& d = *c.destination;
  Transport& t = *d.transport;
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
  while (ConnectionShare* s = c.round.front()) {
    Job& j = *s->waiting.front();
    unassign(j);
    again.push_back(&j);
  }
  for (Job* j : again) {
    if (j->place == Job::Place::handed) unassign(*j);
  }
  for (Job* j : lost) unassign(*j);
  if (!lost.empty()) pause(d);
  const std::uint64_t done = c.done, served = c.served;
  const bool had_work = !again.empty() || !lost.empty();
  const bool cut_short = c.cut_short;
  unset_idle(c);
  if (auto it = std::find(d.connections.begin(), d.connections.end(), &c); it != d.connections.end()) {
    d.connections.erase(it);
  }
  // A peer's broken TLS is no reason to wait where TLS may be left out: the next connection does without.
  const bool broken_tls = trouble == Trouble::tls && may_go_clear(d);
  if (broken_tls) learn_clear_text(d);
  // After deliveries a close is its right, unless it says when to come back. Within the first transaction it may have
  // been the message's fault: then the host has failed when the next one went the same way.
  const bool served_nothing = cut_short ? served == 0 && breaks_again(d) : done == 0 && had_work;
  const bool failure =
      was_opened ? trouble != Trouble::none && !broken_tls &&
                       (served_nothing || (trouble == Trouble::peer_421 && mail::stated_delay(status).has_value()))
                 : trouble != Trouble::replaced && !broken_tls;
  if (failure) {
    failed(d, trouble, status);
  } else {
    if (was_opened && trouble != Trouble::none && done > 0 && !cut_short) learn_quota(d, done);
    d.facts.last_close = wall;
    remember(d);
  }
  const std::string relay = d.address.shown();
  // Holds the destination while its jobs move.
  ++d.references;
  erase(c);
  for (Job* j : lost) {
    defer(*j, status, relay);
  }
  for (Job* j : again) {
    ++figures.rescheduled;
    schedule(*j);
  }
  recheck(d);
  if (t.exclusive()) mark_dirty(t);
  --d.references;
  drop_if_unused(d);
}

void Model::drop(Job& j) {
  Message& m = *j.message;
  Transport& t = *j.route->cluster->transport;
  if (j.share != nullptr) unpool(j);
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
  release(route);
  if (alone) alone_ended(t);
}

void Model::settle() {
  ++event;
  schedule_gone_on();
  do {
    retire_spent();
    pump_workers();
    serve_classes();
    while (Cluster* c = left.pop_front()) unblock(*c);
  } while (!spent.empty() || !dirty.empty() || !dirty_classes.empty());
  pump_routing();
}

}  // namespace pen::qmgr::scheduler
