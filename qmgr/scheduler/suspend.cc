/// What follows when something is suspended or resumed (suspension.h decides that).
#include <algorithm>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

void Model::judge_again(RouteSet& r) {
  if (!suspensions.has_rule()) return;
  ++r.references;  // jobs may go meanwhile
  if (suspensions.old(r.judged)) suspensions.judge(r);
  for (const auto& level : r.cluster->levels) {
    for (const auto& m : level) {
      Destination& d = *m->destination;
      if (!suspensions.old(d.judged)) continue;
      const bool was = !d.suspended.empty();
      suspensions.judge(d);
      if (!was && !d.suspended.empty()) suspend(d);
      if (was && d.suspended.empty()) unblock(d);
    }
  }
  routes.put_back(r);
}

void Model::suspend(Destination& d) {
  ++d.references;  // stays while its connections go
  // A job that one connection leaves to others may close an idle one for a worker.
  while (!d.connections.empty()) retire(*d.connections.front());
  recheck(d);
  --d.references;
  routes.drop_if_unused(d);
}

void Model::reroute_source(std::string_view source) {
  if (draining) return;
  std::vector<JobNumber> waiting;
  jobs.for_each([&](const Job& j) {
    // All destinations of a route have one source.
    if (j.place != Job::Place::handed &&
        j.route->cluster->levels.front().front()->destination->address.source == source)
      waiting.push_back(j.number);
  });
  for (const JobNumber number : waiting) {
    Job* const j = jobs.find(number);
    if (j != nullptr && j->place != Job::Place::handed) reroute(*j);
  }
}

}  // namespace pen::qmgr::scheduler

namespace pen::qmgr {

using namespace scheduler;

void Scheduler::suspensions_changed() {
  Model& s = *model_;
  std::vector<Destination*> suspended, resumed;
  for (const auto& [key, d] : s.routes.destinations()) {
    const bool was = !d->suspended.empty();
    s.suspensions.judge(*d);
    if (d->suspended.empty() == !was) continue;
    (was ? resumed : suspended).push_back(d.get());
  }
  const auto by_key = [](const Destination* a, const Destination* b) { return a->key < b->key; };
  std::sort(suspended.begin(), suspended.end(), by_key);
  std::sort(resumed.begin(), resumed.end(), by_key);
  bool routes = false;
  s.routes.each_route([&](RouteSet& r) {
    s.suspensions.judge(r);
    routes = routes || !r.suspended.empty();
  });
  for (Destination* d : suspended) ++d->references;
  for (Destination* d : resumed) ++d->references;
  for (Destination* d : suspended) s.suspend(*d);
  if (routes) {
    // What waits for a next hop that is suspended now; what is in hand ends.
    std::vector<JobNumber> waiting;
    s.jobs.for_each([&](const Job& j) {
      if ((!j.route->suspended.empty() || j.several) && j.place != Job::Place::handed) waiting.push_back(j.number);
    });
    for (const JobNumber number : waiting) {
      Job* const j = s.jobs.find(number);
      if (j == nullptr || j->place == Job::Place::handed) continue;  // the end of one set it moving
      if (j->several) {                                              // each of its next hops by itself
        s.reroute(*j);
        continue;
      }
      const std::string why = j->route->suspended;
      s.defer(*j, mail::make_status(mail::Action::deferred, "4.3.2", why), "none");
    }
  }
  for (Destination* d : resumed) s.unblock(*d);
  for (auto* list : {&suspended, &resumed}) {
    for (Destination* d : *list) {
      --d->references;
      s.routes.drop_if_unused(*d);
    }
  }
  s.settle();
}

const std::string& Scheduler::source_of(ConnectionNumber connection) const {
  static const std::string none;
  const auto at = model_->connections.find(connection);
  return at == model_->connections.end() ? none : at->second->destination->address.source;
}

std::uint64_t Scheduler::connections_of_source(std::string_view source) const {
  return static_cast<std::uint64_t>(
      std::count_if(model_->connections.begin(), model_->connections.end(),
                    [&](const auto& c) { return c.second->destination->address.source == source; }));
}

void Scheduler::reroute_source(std::string_view source) {
  model_->reroute_source(source);
  model_->settle();
}

void Scheduler::override_deferral(MessageNumber number) {
  if (Message* m = model_->message_numbers.find(number)) m->flushed = true;
}

bool Scheduler::deferral_overridden(MessageNumber number) const {
  const Message* m = model_->message_numbers.find(number);
  return m != nullptr && m->flushed;
}

void Scheduler::forgotten(std::string_view key) {
  Model& s = *model_;
  Destination* const known = s.routes.destination(key);
  if (known == nullptr) return;
  Destination& d = *known;
  d.facts = {};
  d.known = !d.connections.empty();
  s.unblock(d);
  s.settle();
}

}  // namespace pen::qmgr
