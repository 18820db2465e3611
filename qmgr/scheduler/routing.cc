/// Routing: which recipient is looked up next, and how routed recipients become jobs.
#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

void Model::pump_routing() {
  if (draining || routing_solo) return;
  if (!route_alone.empty()) {  // a suspect runs with nothing else under way
    if (routing > 0) return;
    const auto [number, ordinal] = route_alone.front();
    route_alone.pop_front();
    routing_solo = true;
    ++routing;
    actions.emplace_back(RouteRecipient{number, ordinal});
    return;
  }
  while (routing < options.routing_workers) {
    Message* m = routing_queue.next(options.fairness, options.routing_workers - routing);
    if (m == nullptr) return;
    const std::uint32_t ordinal = m->unrouted.pop_front();
    ++m->routing;
    ++routing;
    routing_queue.update(m->routing_entry, m->routing);
    if (m->unrouted.empty()) routing_queue.remove(m->routing_entry);
    actions.emplace_back(RouteRecipient{m->number, ordinal});
  }
}

void Model::routing_ended(Message& m) {
  PEN_CHECK(m.routing > 0 && routing > 0);
  --m.routing;
  --routing;
  routing_solo = false;
  routing_queue.update(m.routing_entry, m.routing);
  if (m.routing == 0 && m.unrouted.empty()) {
    // All routes are known: what has formed is complete.
    while (Job* j = m.forming.front()) formed(*j);
  }
}

void Model::add_to_job(Message& m, std::uint32_t ordinal, const ipc::route::Resolved& answer) {
  if (std::string why = verdict_on_recipient(answer.recipient); !why.empty()) {
    ++figures.deferred;
    actions.emplace_back(DeferRecipients{
        m.number, {ordinal}, {mail::Action::deferred, "4.3.2", std::move(why), {}, {}}, "none", 0});
    return;
  }
  RouteSet& r = route_set(answer);
  const std::uint32_t most = r.cluster->transport->limits.destination_recipients;
  const SteadyTime expiry = now + answer.valid_for;
  if (Job* const* known = m.joinable.find(&r)) {
    Job& j = **known;
    j.ordinals.push_back(ordinal);
    j.expiry = std::min(j.expiry, expiry);
    if (most != 0 && j.ordinals.size() >= most) {
      end_joining(j);
      if (j.place == Job::Place::forming) formed(j);
    }
    return;
  }
  const auto made = jobs.make(ordinal);
  Job& j = made.object;
  j.number = made.number;
  j.message = &m;
  j.route = &r;
  reference(r);
  j.expiry = expiry;
  j.formed = now;
  m.jobs.push_back(j.in_message);
  ++m.job_count;
  m.forming.push_back(j.in_line);
  // Nobody will join it: alone by rule, or the only one of a message whose last look-up this is.
  const bool only = m.routing == 1 && m.unrouted.empty() && m.job_count == 1;
  if (most == 1 || only) {
    formed(j);
    return;
  }
  m.joinable.make(&r, &j);
  j.joinable = true;
  forming.push_back(j.in_forming);
}

void Model::end_joining(Job& j) {
  if (!j.joinable) return;
  j.joinable = false;
  j.message->joinable.erase(j.route);
}

void Model::formed(Job& j) {
  j.in_line.unlink();
  j.in_forming.unlink();
  schedule(j);
}

void Model::reroute(Job& j) {
  // A job not begun at its expiry is routed again.
  Message& m = *j.message;
  for (const std::uint32_t ordinal : j.ordinals.all()) m.unrouted.push_back(ordinal);
  drop(j);
  routing_queue.add(m.routing_entry);
}

}  // namespace pen::qmgr::scheduler
