/// Suspension: by hand (destdb) and by rule (defer_destinations). What is suspended counts as not working: jobs go to
/// other hosts of their route, and are deferred if there are none; they hold no worker and no place in the active set.
#include <algorithm>

#include "lib/base/text.h"
#include "lib/destdb/name.h"
#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

std::string Model::verdict(const std::vector<std::string>& names, std::string_view rule_name,
                           std::string_view rule_address) const {
  const auto& by_hand = table.suspensions();
  if (!by_hand.empty()) {
    for (const std::string& name : names) {
      const auto it = by_hand.find(name);
      if (it == by_hand.end()) continue;
      const std::string& reason = it->second.reason;
      return "delivery to " + name + " is suspended" + (reason.empty() ? "" : ": " + reason);
    }
  }
  if (options.deferral_rule) {
    const std::string rule = options.deferral_rule(rule_name, rule_address);
    if (!rule.empty())
      return "delivery to " + std::string(rule_name.empty() ? rule_address : rule_name) + " is suspended by " + rule;
  }
  return {};
}

std::string Model::verdict_on_recipient(std::string_view recipient) const {
  if (table.suspensions().empty() && !options.deferral_rule) return {};
  const auto at = recipient.rfind('@');
  if (at == std::string_view::npos) return {};
  const auto names = destdb::names_of_nexthop(recipient.substr(at + 1));
  return names.empty() ? std::string() : verdict(names, names.front(), {});
}

void Model::judge(RouteSet& r) {
  r.judged = now;
  r.suspended.clear();
  if (table.suspensions().empty() && !options.deferral_rule) return;  // nearly always
  const auto names = destdb::names_of_nexthop(r.nexthop);
  if (!names.empty()) r.suspended = verdict(names, names.front(), names.front());
}

void Model::judge(Destination& d) {
  d.judged = now;
  d.suspended.clear();
  if (table.suspensions().empty() && !options.deferral_rule) return;
  const ipc::Destination& a = d.address;
  d.suspended =
      verdict(destdb::names_of(a.host.empty() ? a.unix_path : a.host, a.address, a.port), to_lower(a.host), a.address);
}

void Model::judge_again(RouteSet& r) {
  if (!options.deferral_rule) return;
  ++r.references;  // jobs may go meanwhile
  const auto old = [this](SteadyTime judged) { return judged + options.rule_time <= now; };
  if (old(r.judged)) judge(r);
  for (const auto& level : r.cluster->levels) {
    for (const auto& m : level) {
      Destination& d = *m->destination;
      if (!old(d.judged)) continue;
      const bool was = !d.suspended.empty();
      judge(d);
      if (!was && !d.suspended.empty()) suspend(d);
      if (was && d.suspended.empty()) unblock(d);
    }
  }
  if (--r.references > 0 || r.parked) return;
  r.parked = true;
  spare_routes.push_back(&r);
}

void Model::suspend(Destination& d) {
  ++d.references;  // stays while its connections go
  // What one leaves to others may close an idle one for a worker.
  while (!d.connections.empty()) retire(*d.connections.front());
  recheck(d);
  --d.references;
  drop_if_unused(d);
}

}  // namespace pen::qmgr::scheduler

namespace pen::qmgr {

using namespace scheduler;

void Scheduler::suspensions_changed() {
  Model& s = *model_;
  std::vector<Destination*> suspended, resumed;
  for (const auto& [key, d] : s.destinations) {
    const bool was = !d->suspended.empty();
    s.judge(*d);
    if (d->suspended.empty() == !was) continue;
    (was ? resumed : suspended).push_back(d.get());
  }
  const auto by_key = [](const Destination* a, const Destination* b) { return a->key < b->key; };
  std::sort(suspended.begin(), suspended.end(), by_key);
  std::sort(resumed.begin(), resumed.end(), by_key);
  bool routes = false;
  s.routes.for_each([&](RouteSet& r) {
    s.judge(r);
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
      s.defer(*j, {mail::Action::deferred, "4.3.2", why, {}, {}}, "none");
    }
  }
  for (Destination* d : resumed) s.unblock(*d);
  for (auto* list : {&suspended, &resumed}) {
    for (Destination* d : *list) {
      --d->references;
      s.drop_if_unused(*d);
    }
  }
  s.settle();
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
  const auto it = s.destinations.find(std::string(key));
  if (it == s.destinations.end()) return;
  Destination& d = *it->second;
  d.facts = {};
  d.known = !d.connections.empty();
  s.unblock(d);
  s.settle();
}

}  // namespace pen::qmgr
