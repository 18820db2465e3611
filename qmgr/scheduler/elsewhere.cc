/// The connections of other hosts of a cluster, and what these hosts know: the part of the choice of a connection that
/// comes from outside. Without a cluster none of it is ever heard, and everything here is idle.
#include "qmgr/scheduler/model.h"

namespace pen::qmgr {

using namespace scheduler;

void Scheduler::refused(ConnectionNumber number) {
  Model& s = *model_;
  const auto it = s.connections.find(number);
  if (it == s.connections.end()) return;
  Connection& c = *it->second;
  PEN_CHECK(c.handed.empty(), "a connection that was never opened has jobs in hand");
  Destination& d = *c.destination;
  d.refused_until = s.clock.now + kHeardFor;
  d.denied = true;
  const std::vector<Job*> again = s.take_waiting(c);
  --s.figures.connections_opened;
  s.erase(c);
  for (Job* j : again) s.schedule(*j);
  s.settle();
}

void Scheduler::elsewhere(std::string_view key, std::uint32_t connections) {
  Model& s = *model_;
  Destination* const known = s.routes.destination(key);
  if (known == nullptr) return;
  Destination& d = *known;
  const bool fewer = connections < d.elsewhere;
  d.elsewhere = connections;
  d.heard_until = s.clock.now + kHeardFor;
  if (!fewer) return;
  s.unblock(d);
  s.settle();
}

void Scheduler::look_again(std::string_view key) {
  Model& s = *model_;
  Destination* const known = s.routes.destination(key);
  if (known == nullptr) return;
  Destination& d = *known;
  d.heard_until = d.refused_until = s.clock.now;
  d.denied = false;
  s.unblock(d);
  s.settle();
}

void Scheduler::learned(std::string_view key, const destdb::Facts& facts) {
  Model& s = *model_;
  Destination* const known = s.routes.destination(key);
  if (known == nullptr) return;
  Destination& d = *known;
  const bool was_unproven = Probes::unproven(d);
  d.facts = facts;
  s.host_order.note(d);
  if (d.facts.shown.empty()) d.facts.shown = d.address.shown();
  d.known = true;
  ++d.references;
  if (was_unproven) s.proven(d);
  s.recheck(d);
  --d.references;
  s.settle();
}

void Scheduler::give_back(std::string_view key, std::uint32_t keep) {
  Model& s = *model_;
  Destination* const d = s.routes.destination(key);
  if (d == nullptr) return;
  s.give_back(*d, keep);
  s.settle();
}

}  // namespace pen::qmgr
