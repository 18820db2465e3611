/// What people may see of the choice: the states of destinations, and which rule decides.
#include <algorithm>

#include "lib/queue/destdb/name.h"
#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

namespace {
DestinationState state_of(Model& model, const Destination& d) {
  DestinationState s;
  s.key = d.key;
  s.address = d.address;
  s.suspended = d.suspended;
  s.connections = d.holding;
  s.elsewhere = d.elsewhere;
  s.limit = model.limits.connections(d);
  if (d.provider != nullptr) s.limit = std::min(s.limit, model.shaping.connections(*d.provider));
  if (s.limit >= kNoLimit) s.limit = 0;
  s.limits = model.shaping.of(d);
  s.facts = d.facts;
  if (s.facts.shown.empty()) s.facts.shown = d.address.shown();
  if (model.rate_delay.must_pause(d) && d.paused_until > model.clock.now)
    s.paused = std::chrono::ceil<milliseconds>(d.paused_until - model.clock.now);
  if (d.session_class != nullptr) {
    s.session_class = d.session_class->number;
    s.in_line = d.in_class_line.linked();
    s.class_line = d.session_class->waiting_count;
  }
  bool active = false;
  for (const Connection* c : d.connections) {
    s.in_hand += c->handed.size();
    s.waiting += c->waiting;
    active = active || c->jobs() > 0 || c->state != Connection::State::open;
  }
  using Class = DestinationClass;
  s.classification = !d.suspended.empty()     ? Class::suspended
                     : active                 ? Class::active
                     : !d.connections.empty() ? Class::idle
                     : model.back_off.dead(d) ? Class::failing
                     : !d.known               ? Class::unused
                     : d.facts.failures > 0   ? Class::retry
                                              : Class::closed;
  return s;
}

Explanation explain(Model& model, const RouteSet& r, const MailOf& of) {
  Explanation e;
  const Cluster& c = *r.cluster;
  e.suspended = r.suspended;
  if (e.suspended.empty() && c.transport->limits.deferred)
    e.suspended = "transport " + c.transport->name + " is in defer_transports";
  e.pooled = c.pooled;
  e.free_workers = c.transport->limits.workers == 0 ? 0 : c.transport->free();
  e.transport_up = c.transport->up;
  e.limits = model.shaping.of(r, of);
  for (const auto& level : c.levels) {
    auto& out = e.levels.emplace_back();
    for (const auto& m : level) out.push_back(state_of(model, *m->destination));
  }
  if (Model::stands_behind(c)) {
    e.level = model.back_off.usable_level(c);
    if (e.level < c.levels.size()) {
      e.choice = Choice::wait;
      return e;
    }
    e.level = 0;
  }
  for (; e.level < c.levels.size(); ++e.level) {
    const Chooser::Chosen chosen = model.chooser.choose(c, e.level, 0, false, 0);
    if (chosen.rule == Choice::nothing) continue;
    e.choice = chosen.rule;
    if (chosen.connection != nullptr) e.chosen.push_back(chosen.connection->destination->key);
    for (const Destination* d : chosen.candidates) e.chosen.push_back(d->key);
    break;
  }
  return e;
}
}  // namespace

}  // namespace pen::qmgr::scheduler

namespace pen::qmgr {

using namespace scheduler;

Explanation Scheduler::explain(const ipc::route::Resolved& answer, const MailOf& of) {
  Model& s = *model_;
  RouteSet& r = s.routes.in_order(s.route_set(answer));
  s.routes.reference(r);
  Explanation e = scheduler::explain(s, r, of);
  if (auto why = s.suspensions.verdict_on_recipient(answer.recipient); !why.empty()) e.suspended = why;
  s.routes.release(r);
  s.settle();
  return e;
}

void Scheduler::each_destination(const std::function<void(const DestinationState&)>& see) const {
  for (const auto& [key, d] : model_->routes.destinations()) see(state_of(*model_, *d));
}

Scheduler::Troubled Scheduler::troubled(std::size_t most) const {
  Troubled out;
  std::vector<const Destination*> kept;  // a heap: the least troubled first
  const auto worse = [](const Destination* a, const Destination* b) {
    return a->facts.failures != b->facts.failures ? a->facts.failures > b->facts.failures : a->key < b->key;
  };
  for (const auto& [key, d] : model_->routes.destinations()) {
    if (d->facts.failures == 0 && d->suspended.empty()) continue;
    ++out.all;
    if (kept.size() == most && (most == 0 || !worse(d.get(), kept.front()))) continue;
    kept.push_back(d.get());
    std::ranges::push_heap(kept, worse);
    if (kept.size() <= most) continue;
    std::ranges::pop_heap(kept, worse);
    kept.pop_back();
  }
  std::ranges::sort(kept, worse);
  for (const Destination* d : kept) out.worst.push_back(state_of(*model_, *d));
  return out;
}

std::vector<std::string> Scheduler::destinations_of(std::string_view name) const {
  std::vector<std::string> out;
  model_->routes.each_route([&](const RouteSet& r) {
    const auto names = destdb::names_of_nexthop(r.nexthop);
    if (std::find(names.begin(), names.end(), name) == names.end()) return;
    for (const auto& level : r.cluster->levels)
      for (const auto& m : level) out.push_back(m->destination->key);
  });
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace pen::qmgr
