/// The connections of other hosts of a cluster, and what these hosts know: what comes from outside into the choice of a
/// connection. Without a cluster nothing of it is ever heard, and everything here is idle.
#include <algorithm>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

bool Model::full(const Destination& d) const {
  const std::uint32_t limit = connection_limit(d);
  if (d.holding >= limit || now < d.refused_until) return true;
  // What was heard a while ago keeps nobody from asking.
  return d.elsewhere > 0 && now < d.heard_until && d.holding + d.elsewhere >= limit;
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
  drop_if_unused(d);
}

}  // namespace pen::qmgr::scheduler

namespace pen::qmgr {

using namespace scheduler;

void Scheduler::refused(ConnectionNumber number) {
  Model& s = *model_;
  const auto it = s.connections.find(number);
  if (it == s.connections.end()) return;
  Connection& c = *it->second;
  PEN_CHECK(c.handed.empty(), "a connection that was never opened has jobs in hand");
  Destination& d = *c.destination;
  d.refused_until = s.now + kHeardFor;
  std::vector<Job*> again;
  while (ConnectionShare* share = c.round.front()) {
    Job& j = *share->waiting.front();
    s.unassign(j);
    again.push_back(&j);
  }
  --s.figures.connections_opened;
  s.erase(c);
  for (Job* j : again) s.schedule(*j);
  s.settle();
}

void Scheduler::elsewhere(std::string_view key, std::uint32_t connections) {
  Model& s = *model_;
  const auto it = s.destinations.find(std::string(key));
  if (it == s.destinations.end()) return;
  Destination& d = *it->second;
  const bool fewer = connections < d.elsewhere;
  d.elsewhere = connections;
  d.heard_until = s.now + kHeardFor;
  if (!fewer) return;
  s.unblock(d);
  s.settle();
}

void Scheduler::look_again(std::string_view key) {
  Model& s = *model_;
  const auto it = s.destinations.find(std::string(key));
  if (it == s.destinations.end()) return;
  Destination& d = *it->second;
  d.heard_until = d.refused_until = s.now;
  s.unblock(d);
  s.settle();
}

void Scheduler::learned(std::string_view key, const destdb::Facts& facts) {
  Model& s = *model_;
  const auto it = s.destinations.find(std::string(key));
  if (it == s.destinations.end()) return;
  Destination& d = *it->second;
  d.facts = facts;
  s.note_order(d);
  if (d.facts.shown.empty()) d.facts.shown = d.address.shown();
  if (!d.known && d.facts.failures == 0 && d.facts.last_connect != WallTime{}) d.allowance = 0;  // new here only
  d.known = true;
  ++d.references;
  s.recheck(d);
  --d.references;
  s.settle();
}

void Scheduler::give_back(std::string_view key, std::uint32_t keep) {
  Model& s = *model_;
  const auto it = s.destinations.find(std::string(key));
  if (it == s.destinations.end()) return;
  s.give_back(*it->second, keep);
  s.settle();
}

}  // namespace pen::qmgr
