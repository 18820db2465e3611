#include "qmgr/scheduler/scheduler.h"

#include <algorithm>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr {

using namespace scheduler;

Scheduler::Scheduler(Options options, std::function<TransportLimits(std::string_view)> limits,
                     destdb::Table& destinations, Random& random)
    : model_(std::make_unique<Model>(options, std::move(limits), destinations, random)) {}
Scheduler::~Scheduler() = default;

void Scheduler::set_time(SteadyTime now, WallTime wall) {
  model_->clock.now = now;
  model_->clock.wall = wall;
}

void Scheduler::admit(MessageNumber number, const Ordinals& recipients, SourceNumber source, std::string_view tenant,
                      std::string_view sender_domain, Urgency urgency, std::string_view signer) {
  Model& s = *model_;
  Message* known = s.message_numbers.find(number);
  const bool fresh = known == nullptr;
  if (fresh) {
    const auto made = s.messages.make();
    known = &made.object;
    known->slot = made.number;
    s.message_numbers.insert(number, known);
  }
  Message& m = *known;
  if (fresh) {
    m.number = number;
    const auto [its, weighs_anew] = s.tenants.enter(tenant);
    m.tenant = its;
    m.urgency = urgency;
    if (weighs_anew) s.may_have_more(*its);
    s.sources.join(m, source, recipients.size());
    s.shaping.enter(m, sender_domain, signer);
  }
  m.unrouted.add(recipients);
  s.wants_routes(m);
  s.settle();
}

void Scheduler::routed(MessageNumber number, std::uint32_t ordinal, const ipc::route::Resolved& answer,
                       Sharing sharing) {
  Model& s = *model_;
  Message& m = s.message(number);
  if (m.withdrawn) {
    s.actions.emplace_back(DeferRecipients{
        number, {ordinal}, mail::make_status(mail::Action::deferred, "4.3.0", "withdrawn"), "none", 0, true});
  } else {
    s.add_to_job(m, ordinal, answer, sharing);
  }
  s.routing_ended(m);
  s.settle();
}

void Scheduler::unroutable(MessageNumber number, std::uint32_t) {
  Model& s = *model_;
  s.routing_ended(s.message(number));
  s.settle();
}

void Scheduler::route_lost(MessageNumber number, std::uint32_t ordinal, bool alone) {
  Model& s = *model_;
  Message& m = s.message(number);
  if (m.withdrawn) {
    s.actions.emplace_back(DeferRecipients{
        number, {ordinal}, mail::make_status(mail::Action::deferred, "4.3.0", "withdrawn"), "none", 0, true});
    s.routing_ended(m);
  } else if (alone) {
    // Still counts as the message's look-up; it is no longer under way.
    PEN_CHECK(s.routing > 0);
    --s.routing;
    s.routing_solo = false;
    s.route_alone.emplace_back(number, ordinal);
  } else {
    m.unrouted.push_front(ordinal);
    s.wants_routes(m);
    s.routing_ended(m);
  }
  s.settle();
}

Ordinals Scheduler::withdraw(MessageNumber number) {
  Model& s = *model_;
  Message& m = s.message(number);
  m.withdrawn = true;
  Ordinals back = m.unrouted.all();
  m.unrouted.clear();
  m.in_unrouted.unlink();
  if (m.party->unrouted.empty()) s.routing_queue.remove(m.party->routing_entry);
  for (auto it = s.route_alone.begin(); it != s.route_alone.end();) {
    if (it->first != number) {
      ++it;
      continue;
    }
    back.push_back(it->second);
    --m.routing;
    --m.party->routing;
    if (m.party->tenant != nullptr) --m.party->tenant->routing;
    it = s.route_alone.erase(it);
  }
  std::vector<Job*> waiting;
  m.jobs.for_each([&](Job& j) {
    if (j.place != Job::Place::handed) waiting.push_back(&j);
  });
  for (Job* j : waiting) {
    const Ordinals its = j->ordinals.all();
    back.insert(back.end(), its.begin(), its.end());
    s.drop(*j);
  }
  s.settle();
  return back;
}

void Scheduler::forget(MessageNumber number) {
  Model& s = *model_;
  Message& m = s.message(number);
  PEN_CHECK(m.job_count == 0 && m.routing == 0 && m.unrouted.empty(), "a message with work left is forgotten");
  s.sources.leave(m);
  s.shaping.leave(m);
  Tenant* const tenant = m.tenant;
  s.message_numbers.erase(number);
  s.messages.destroy(m.slot);
  s.tenants.leave(tenant);
}

void Scheduler::pseudo_message(SourceNumber number, const PseudoMessageLimits& limits) {
  Model& s = *model_;
  s.sources.make_pseudo_message(number, limits, s.tenants.enter({}).tenant);
}

void Scheduler::tenant_weight(std::string_view tenant, std::uint32_t weight) {
  Tenant* const known = model_->tenants.weigh(tenant, weight);
  if (known == nullptr) return;
  model_->may_have_more(*known);
  model_->settle();
}

void Scheduler::opened(ConnectionNumber number, const ipc::delivery::Features& features) {
  Model& s = *model_;
  auto it = s.connections.find(number);
  if (it == s.connections.end()) return;  // closed by us meanwhile
  Connection& c = *it->second;
  if (c.state != Connection::State::opening) return;
  Destination& d = *c.destination;
  s.probes.end(c);
  const bool was_unproven = Probes::unproven(d);
  c.state = Connection::State::open;
  ++d.open;
  c.window = d.window = std::max(1U, features.window);
  c.round_trip = features.round_trip;
  c.opened_at = s.clock.now;
  d.transport->by_age.push_back(c.in_age);
  if (d.facts.failures > 0) d.allowance = d.transport->limits.initial_concurrency;
  d.facts.failures = 0;
  d.facts.reason.clear();
  d.facts.last_connect = s.clock.wall;
  d.facts.pipelining = features.pipelining;
  d.facts.chunking = features.chunking;
  d.facts.starttls = features.starttls;
  d.facts.size_limit = features.size_limit;
  d.facts.connect_time = features.connect_time;
  d.facts.round_trip = features.round_trip;
  const auto in_use = static_cast<std::uint32_t>(d.connections.size()) + d.elsewhere;
  s.ceilings.bears(d, in_use);
  s.limits.note_use(d);
  if (d.provider != nullptr) s.shaping.opened(*d.provider);
  s.memory.keep(d);
  s.hand_out(c);
  if (c.jobs() == 0) s.set_idle(c);
  s.spread(c);
  if (was_unproven) s.proven(d);
  s.unblock(d);  // its limit may have risen
  s.settle();
}

std::optional<SourceBlock> Scheduler::closed(ConnectionNumber number, bool was_opened, ipc::delivery::Trouble trouble,
                                             const mail::DeliveryStatus& status,
                                             const std::vector<JobNumber>& unstarted) {
  Model& s = *model_;
  auto it = s.connections.find(number);
  if (it == s.connections.end()) return std::nullopt;  // the answer to our own close
  auto block = s.closed(*it->second, was_opened, trouble, status, unstarted);
  s.settle();
  return block;
}

void Scheduler::job_done(JobNumber number, microseconds since_begun, JobEnd end) {
  Model& s = *model_;
  Job* const known = s.jobs.find(number);
  if (known == nullptr) return;
  Job& j = *known;
  prefetch(*j.message);
  PEN_CHECK(j.place == Job::Place::handed, "a result for a job that was not handed out");
  Connection& c = *j.connection;
  const ConnectionNumber connection = c.number;
  Destination& d = *c.destination;
  Transport& t = *d.transport;
  const bool held = s.shares.holds_its_share(d);
  switch (end) {
    case JobEnd::served:
      s.speed.learn(c, since_begun);
      s.ceilings.carried_one_more(c);
      s.shaping.delivered(j);
      ++c.served;
      s.host_order.took_something(d);
      break;
    case JobEnd::put_off:
      s.speed.learn(c, since_begun);
      s.ceilings.carried_one_more(c);
      if (j.sessions > 0 || j.route->cluster->has_several()) s.host_order.took_nothing(d);
      break;
    case JobEnd::cut_short:
      if (!std::exchange(c.cut_short, true)) s.host_order.broke_off(d, j.message->number);
      break;
    case JobEnd::own_fault:
      break;
  }
  ++s.figures.jobs_done;
  s.rate_delay.pause(d);
  s.message_numbers.prefetch(j.message->number);  // most have one job, and are forgotten next
  s.drop(j);
  const bool answered = end == JobEnd::served || end == JobEnd::put_off;
  if (answered) HostOrder::went_on(d);
  if (d.allowance > 0 && answered) {  // it accepts what it has: one connection more
    const std::uint32_t most = t.limits.destination_concurrency;
    d.allowance = most != 0 && d.allowance + 1 >= most ? 0 : d.allowance + 1;
    s.limit_rose(d);
  }
  if (held && !s.shares.holds_its_share(d)) s.unblock(d);
  if (t.exclusive()) s.to_serve.mark(t);
  if (answered && c.last_cluster != nullptr) {
    const std::size_t its_part = c.last_cluster->pooled / c.last_cluster->levels.front().size();
    const Paying::Step step = s.paying.learn(d, its_part);
    if (step.limit_rose) s.limit_rose(d);
    if (step.keep) s.give_back(d, *step.keep);
  }
  if (auto still = s.connections.find(connection); still != s.connections.end()) {
    Destination* better = nullptr;
    if (c.state == Connection::State::retiring) {
      if (c.handed.empty()) s.left(c);
    } else if (RateDelay::outlasts_idle(t)) {
      s.retire(c);  // it would be open for nothing until the next delivery
    } else if (s.yields(c)) {
      s.yield(c);
    } else if (c.handed.empty() && (better = s.finish.worker_is_better_at(c)) != nullptr) {
      s.move_worker(c, *better);
    } else {
      s.hand_out(c);
      if (c.jobs() == 0) s.set_idle(c);
      s.spread(c);
    }
  }
  s.settle();
}

void Scheduler::out_of_step(ConnectionNumber number) {
  Model& s = *model_;
  const auto it = s.connections.find(number);
  if (it == s.connections.end()) return;
  Destination& d = *it->second->destination;
  s.ceilings.learn_step_by_step(d);
  s.memory.keep(d);
}

void Scheduler::isolate_message(MessageNumber number) {
  if (Message* m = model_->message_numbers.find(number)) m->isolated = true;
}

void Scheduler::isolate(JobNumber number) {
  if (Job* j = model_->jobs.find(number)) j->isolated = true;
}

void Scheduler::transport_up(std::string_view name, bool up) {
  Model& s = *model_;
  Transport& t = s.routes.transport(name);
  t.up = up;
  if (up) {
    s.to_serve.mark(t);
    s.settle();
  }
}

void Scheduler::transport_failed(std::string_view name, const mail::DeliveryStatus& status) {
  Model& s = *model_;
  Transport& t = s.routes.transport(name);
  std::vector<JobNumber> waiting;
  s.jobs.for_each([&](const Job& j) {
    if (j.route->cluster->transport == &t &&
        (j.place == Job::Place::pooled || j.place == Job::Place::gated || j.place == Job::Place::alone))
      waiting.push_back(j.number);
  });
  for (const JobNumber number : waiting) {
    if (Job* const j = s.jobs.find(number)) s.defer(*j, status, "none");
  }
  s.settle();
}

void Scheduler::forgive() { model_->back_off.forgive(); }

void Scheduler::drain() { model_->draining = true; }

void Scheduler::tick() { model_->tick(); }

SteadyTime Scheduler::next_wake() const {
  const Model& s = *model_;
  SteadyTime next = kNever;
  if (const Job* j = s.forming.front()) next = std::min(next, j->formed + s.options.forming_time);
  next = std::min({next, s.rate_delay.next_end(), s.shaping.next_wake(), s.pool.next_look()});
  for (const auto& [name, t] : s.routes.transports()) {
    next = std::min({next, t->look_at_probes, t->solo_until});
    if (const Connection* c = t->idle.front()) next = std::min(next, c->idle_since + t->limits.idle_age);
    if (const Connection* c = t->waits.front()) next = std::min(next, c->waits_since + kStuckPatience);
    if (const Connection* c = t->by_age.front()) next = std::min(next, c->opened_at + t->limits.max_age);
  }
  return next;
}

std::optional<MessageNumber> Scheduler::excess() const {
  for (const auto& [name, t] : model_->routes.transports()) {
    if (const auto number = model_->shares.excess(*t)) return number;
  }
  return model_->shares.excess();
}

bool Scheduler::crowded() const {
  const auto& transports = model_->routes.transports();
  return model_->shares.crowded() || std::any_of(transports.begin(), transports.end(),
                                                 [this](const auto& t) { return model_->shares.crowded(*t.second); });
}

std::vector<Action> Scheduler::take_actions() { return std::exchange(model_->actions, {}); }

void Scheduler::take_actions(std::vector<Action>& into) {
  into.clear();
  into.swap(model_->actions);
}

Scheduler::Figures Scheduler::figures() const {
  Figures f = model_->figures;
  f.messages = model_->messages.size();
  f.jobs = model_->jobs.size();
  f.connections = model_->connections.size();
  f.routing = model_->routing;
  f.waiting_jobs = f.jobs - f.in_hand;
  return f;
}

}  // namespace pen::qmgr
