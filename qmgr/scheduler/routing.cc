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
    Party* p = routing_queue.next(options.fairness, options.routing_workers - routing);
    if (p == nullptr) return;
    Message& m = *p->unrouted.front();
    p->unrouted.rotate();
    const std::uint32_t ordinal = m.unrouted.pop_front();
    if (m.unrouted.empty()) m.in_unrouted.unlink();
    ++m.routing;
    ++routing;
    if (p->tenant != nullptr) ++p->tenant->routing;
    routing_queue.served(p->tenant, p->turns, 1);
    routing_queue.update(p->routing_entry, ++p->routing);
    if (p->unrouted.empty()) {
      routing_queue.remove(p->routing_entry);
    } else if (p->shared) {
      to_the_end(routing_queue, p->routing_entry);
    }
    message_numbers.prefetch(m.number);  // the answer names it
    actions.emplace_back(RouteRecipient{m.number, ordinal});
  }
}

RouteSet& Model::route_set(const ipc::route::Resolved& answer) {
  RouteSet& r = routes.find(answer);
  judge_again(r);
  return r;
}

void Model::wants_routes(Message& m) {
  if (m.unrouted.empty() || m.in_unrouted.linked()) return;
  m.party->unrouted.push_back(m.in_unrouted);
  routing_queue.add(m.party->routing_entry);
}

void Model::routing_ended(Message& m) {
  PEN_CHECK(m.routing > 0 && m.party->routing > 0 && routing > 0);
  --m.routing;
  --routing;
  routing_solo = false;
  routing_queue.update(m.party->routing_entry, --m.party->routing);
  if (Tenant* const tenant = m.party->tenant) {
    --tenant->routing;
    may_have_more(*tenant);
  }
  if (m.routing == 0 && m.unrouted.empty()) {
    // All routes are known: what has formed is complete.
    while (Job* j = m.forming.front()) formed(*j);
  }
}

void Model::add_to_job(Message& m, std::uint32_t ordinal, const ipc::route::Resolved& answer, Sharing sharing) {
  if (std::string why = suspensions.verdict_on_recipient(answer.recipient); !why.empty()) {
    ++figures.deferred;
    actions.emplace_back(DeferRecipients{
        m.number, {ordinal}, mail::make_status(mail::Action::deferred, "4.3.2", std::move(why)), "none", 0});
    return;
  }
  if (const seconds rest = shaping.recipient_rests(answer.recipient); rest.count() > 0) {
    ++figures.deferred;
    actions.emplace_back(DeferRecipients{m.number, {ordinal}, Shaping::resting_recipient(rest), "none", 0});
    return;
  }
  RouteSet& r = routes.in_order(route_set(answer));
  const bool rewritten = sharing == Sharing::rewritten;
  const std::uint32_t most = sharing == Sharing::alone ? 1 : r.cluster->transport->limits.destination_recipients;
  const SteadyTime expiry = clock.now + answer.valid_for;
  const void* const key = join_key(m, r, rewritten);
  if (Job* const* known = most == 1 ? nullptr : m.joinable.find(key)) {
    Job& j = **known;
    j.several = j.several || j.route != &r;
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
  routes.reference(r);
  j.rewritten = rewritten;
  j.expiry = expiry;
  j.formed = clock.now;
  m.jobs.push_back(j.in_message);
  ++m.job_count;
  m.forming.push_back(j.in_line);
  // Nothing will join it: alone by rule, or the only one of a message after its last look-up.
  const bool only = m.routing == 1 && m.unrouted.empty() && m.job_count == 1;
  if (most == 1 || only) {
    formed(j);
    return;
  }
  m.joinable.make(key, &j);
  j.joined_by = key;
  forming.push_back(j.in_forming);
}

const void* Model::join_key(const Message& m, const RouteSet& r, bool rewritten) const {
  // An address inside of the object that it stands for, so that no other key is equal.
  if (rewritten) return static_cast<const char*>(join_key(m, r, false)) + 1;
  const Cluster& c = *r.cluster;
  const TransportLimits& own = c.transport->limits;
  // A rule that names next hops is asked for each by itself, for as long as mail waits.
  if (!own.combine_domains || own.destination_recipients == 1 || m.one_domain || !r.suspended.empty() ||
      suspensions.has_rule())
    return &r;
  if (host_order.one_domain(c)) return &r;
  return &c;
}

void Model::end_joining(Job& j) {
  if (j.joined_by == nullptr) return;
  j.message->joinable.erase(std::exchange(j.joined_by, nullptr));
}

void Model::formed(Job& j) {
  j.in_line.unlink();
  j.in_forming.unlink();
  schedule(j);
}

void Model::reroute(Job& j) {
  // A job not begun at its expiry is routed again.
  Message& m = *j.message;
  if (j.isolated) m.isolated = true;
  for (const std::uint32_t ordinal : j.ordinals.all()) m.unrouted.push_back(ordinal);
  drop(j);
  wants_routes(m);
}

}  // namespace pen::qmgr::scheduler
