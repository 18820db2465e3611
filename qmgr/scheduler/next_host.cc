/// The next host of a route, in the same round (RFC 5321 section 5.1): what one host did not take now is offered to the
/// others, and hosts that took nothing lately are asked after the others (host_order.h).
///
/// Either is another route set: one without the hosts that refused the job, or one in which hosts that take nothing
/// stand on a last level of their own. So a job has just the hosts that it may go to, and nothing else here asks about
/// the past.
#include <algorithm>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

bool Model::may_go_on(const Job& j, const Destination& from) const {
  const std::uint32_t most = j.route->cluster->transport->limits.sessions;
  if (most != 0 && j.sessions + 1U >= most) return false;
  if (j.message->withdrawn || draining) return false;
  const Cluster& c = *j.route->cluster;
  return c.has_several() && std::any_of(c.levels.begin(), c.levels.end(), [&](const auto& level) {
           return std::any_of(level.begin(), level.end(), [&](const auto& m) {
             return m->destination != &from && !back_off.dead(*m->destination);
           });
         });
}

void Model::give_up(Job& j, const Ordinals& ordinals, const mail::DeliveryStatus& status) {
  ++figures.deferred;
  actions.emplace_back(
      DeferRecipients{j.message->number, ordinals, status, j.connection->destination->address.shown(), 0});
}

/// A job for some recipients of another one, which is in hand; schedule_gone_on() places it.
Job& Model::part_of(Job& j, const Ordinals& ordinals, RouteSet& route) {
  Message& m = *j.message;
  const auto made = jobs.make(ordinals.front());
  Job& next = made.object;
  next.number = made.number;
  for (auto at = ordinals.begin() + 1; at != ordinals.end(); ++at) next.ordinals.push_back(*at);
  next.message = &m;
  next.route = &route;
  routes.reference(route);
  next.expiry = j.expiry;
  next.formed = clock.now;
  next.isolated = j.isolated;
  next.rewritten = j.rewritten;
  next.several = j.several;
  next.sessions = j.sessions;
  m.jobs.push_back(next.in_message);
  ++m.job_count;
  gone_on_.push_back(next.number);
  return next;
}

void Model::go_on(Job& j, const Ordinals& ordinals, const mail::DeliveryStatus& status) {
  Destination& from = *j.connection->destination;
  if (!may_go_on(j, from)) return give_up(j, ordinals, status);
  Job& next = part_of(j, ordinals, routes.without(*j.route, from));
  // The route is that of this round however long it takes: another look-up would begin with the first host again.
  next.expiry = kNever;
  ++next.sessions;
}

void Model::go_again(Job& j, const Ordinals& ordinals, const mail::DeliveryStatus& status) {
  if (j.message->withdrawn || draining) return give_up(j, ordinals, status);
  part_of(j, ordinals, *j.route);
}

void Model::schedule_gone_on() {
  for (const JobNumber number : std::exchange(gone_on_, {})) {
    if (Job* const j = jobs.find(number)) schedule(*j);
  }
}

void Model::split_domains(Job& j, const Ordinals& ordinals, const mail::DeliveryStatus& status) {
  Destination& d = *j.connection->destination;
  host_order.takes_one_domain(d);
  Message& m = *j.message;
  if (!j.several || m.withdrawn || draining) {  // by the same next hop: there is nothing to split
    go_on(j, ordinals, status);
    return;
  }
  if (j.isolated) m.isolated = true;
  m.one_domain = true;  // even if the host's facts are forgotten: it comes here once
  for (const std::uint32_t ordinal : ordinals) m.unrouted.push_back(ordinal);
  wants_routes(m);
}

}  // namespace pen::qmgr::scheduler

namespace pen::qmgr {

using namespace scheduler;

void Scheduler::try_next_host(JobNumber number, const Ordinals& ordinals, const mail::DeliveryStatus& status) {
  Model& s = *model_;
  Job* const j = s.jobs.find(number);
  PEN_CHECK(j != nullptr && j->place == Job::Place::handed && !ordinals.empty(), "what one host refused was with it");
  s.go_on(*j, ordinals, status);
}

void Scheduler::one_domain_only(JobNumber number, const Ordinals& ordinals, const mail::DeliveryStatus& status) {
  Model& s = *model_;
  Job* const j = s.jobs.find(number);
  PEN_CHECK(j != nullptr && j->place == Job::Place::handed && !ordinals.empty(), "what one host refused was with it");
  s.split_domains(*j, ordinals, status);
}

void Scheduler::rest_at_once(JobNumber number, const Ordinals& ordinals, const mail::DeliveryStatus& status) {
  Model& s = *model_;
  Job* const j = s.jobs.find(number);
  PEN_CHECK(j != nullptr && j->place == Job::Place::handed && !ordinals.empty(), "what a host left over was with it");
  s.go_again(*j, ordinals, status);
}

}  // namespace pen::qmgr
