/// The next host of a route, in the same round (RFC 5321 section 5.1): what one host did not take now is offered to the
/// others, and hosts that took nothing lately are asked after the others.
///
/// A host that takes one domain in a transaction is remembered too.
///
/// The first two are other route sets: one without the hosts that a job was refused by, one in which hosts that take
/// nothing stand on a last level of their own. So a job has just the hosts that it may go to, and nothing else here
/// asks about the past.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

namespace {
/// So many transactions in a row: one may have been the message's fault.
constexpr std::uint32_t kTakesNothing = 2;
/// After that a host may have another mind about several domains.
constexpr std::chrono::hours kOneDomain{24};
}  // namespace

bool Model::may_go_on(const Job& j, const Destination& from) const {
  const std::uint32_t most = j.route->cluster->transport->limits.sessions;
  if (most != 0 && j.sessions + 1U >= most) return false;
  if (j.message->withdrawn || draining) return false;
  const Cluster& c = *j.route->cluster;
  return c.has_several() && std::any_of(c.levels.begin(), c.levels.end(), [&](const auto& level) {
           return std::any_of(level.begin(), level.end(),
                              [&](const auto& m) { return m->destination != &from && !dead(*m->destination); });
         });
}

RouteSet& Model::changed(RouteSet& r, std::span<Destination* const> hosts, Change change) {
  Fingerprint mark;
  for (const Destination* d : hosts) {
    const auto h = XXH3_128bits_withSeed(d->key.data(), d->key.size(),
                                         fingerprint_key ^ (static_cast<std::uint64_t>(change) << 32));
    mark.low += h.low64;
    mark.high += h.high64;
  }
  const auto marked = [&mark](const Fingerprint& f) { return Fingerprint{f.low + mark.low, f.high + mark.high}; };
  std::uint64_t number = 0;
  if (RouteSet* known = find_by(route_numbers, marked(r.fingerprint), number)) {
    known->suspended = r.suspended;
    known->judged = r.judged;
    return *known;
  }
  const auto made = routes.make();
  RouteSet& other = made.object;
  other.slot = made.number;
  other.number = number;
  route_numbers.insert(number, &other);
  other.fingerprint = marked(r.fingerprint);
  other.nexthop = r.nexthop;
  other.cluster = &changed(*r.cluster, hosts, change, marked(r.cluster->fingerprint));
  ++other.cluster->references;
  other.suspended = r.suspended;
  other.judged = r.judged;
  return other;
}

Cluster& Model::changed(const Cluster& from, std::span<Destination* const> hosts, Change change,
                        const Fingerprint& fingerprint) {
  std::uint64_t number = 0;
  if (Cluster* const known = find_by(cluster_numbers, fingerprint, number)) return *known;
  Cluster& c = make_cluster(fingerprint, number, *from.transport);
  const auto add = [&c](std::vector<std::unique_ptr<Member>>& level, Destination& d) {
    ++d.references;
    level.push_back(std::make_unique<Member>(&c, &d, c.levels.size()));
  };
  const auto chosen = [&hosts](const Destination* d) {
    return std::find(hosts.begin(), hosts.end(), d) != hosts.end();
  };
  for (const auto& level : from.levels) {
    std::vector<std::unique_ptr<Member>> rest;
    for (const auto& m : level) {
      if (!chosen(m->destination)) add(rest, *m->destination);
    }
    if (!rest.empty()) c.levels.push_back(std::move(rest));
  }
  if (change == Change::last) {
    std::vector<std::unique_ptr<Member>> last;
    for (Destination* d : hosts) add(last, *d);
    c.levels.push_back(std::move(last));
  }
  PEN_CHECK(!c.levels.empty(), "a cluster without a host");
  return c;
}

RouteSet& Model::in_order(RouteSet& r) {
  if (wall >= takes_nothing_until || !r.cluster->has_several()) return r;  // nearly always
  std::vector<Destination*> last;
  bool others = false;
  for (const auto& level : r.cluster->levels) {
    for (const auto& m : level) {
      if (asked_last(*m->destination))
        last.push_back(m->destination);
      else
        others = true;
    }
  }
  if (last.empty() || !others) return r;
  ++r.references;
  RouteSet& other = changed(r, last, Change::last);
  ++other.references;  // stays while r goes to those that are kept for re-use
  release(r);
  --other.references;  // the caller's turn
  return other;
}

void Model::go_on(Job& j, const Ordinals& ordinals, const mail::DeliveryStatus& status) {
  Destination& from = *j.connection->destination;
  if (!may_go_on(j, from)) {
    ++figures.deferred;
    actions.emplace_back(DeferRecipients{j.message->number, ordinals, status, from.address.shown(), 0});
    return;
  }
  Destination* const tried[] = {&from};
  RouteSet& rest = changed(*j.route, tried, Change::without);
  Message& m = *j.message;
  const auto made = jobs.make(ordinals.front());
  Job& next = made.object;
  next.number = made.number;
  for (auto at = ordinals.begin() + 1; at != ordinals.end(); ++at) next.ordinals.push_back(*at);
  next.message = &m;
  next.route = &rest;
  reference(rest);
  // The route is that of this round however long it takes: another look-up would begin with the first host again.
  next.expiry = kNever;
  next.formed = now;
  next.isolated = j.isolated;
  next.several = j.several;
  next.sessions = static_cast<std::uint16_t>(j.sessions + 1);
  m.jobs.push_back(next.in_message);
  ++m.job_count;
  gone_on.push_back(next.number);
}

void Model::schedule_gone_on() {
  for (const JobNumber number : std::exchange(gone_on, {})) {
    if (Job* const j = jobs.find(number)) schedule(*j);
  }
}

void Model::took_nothing(Destination& d) {
  destdb::Facts& f = d.facts;
  if (asked_last(d)) return;  // one outage counts once
  if (++f.deferrals >= kTakesNothing) {
    // A message that met it comes back within backoff_max, and is to find it remembered.
    f.asked_last_until = wall + 2 * options.backoff_max;
    note_order(d);
  }
  remember(d);
}

void Model::took_something(Destination& d) {
  if (d.facts.deferrals == 0) return;
  d.facts.deferrals = 0;
  d.facts.asked_last_until = {};
  remember(d);
}

bool Model::breaks_again(const Destination& d) const {
  return d.facts.deferrals >= kTakesNothing &&
         std::none_of(d.connections.begin(), d.connections.end(),
                      [](const Connection* c) { return c->state == Connection::State::open; });
}

void Model::note_order(const Destination& d) {
  takes_nothing_until = std::max(takes_nothing_until, d.facts.asked_last_until);
  one_domain_until = std::max(one_domain_until, d.facts.one_domain_until);
}

void Model::split_domains(Job& j, const Ordinals& ordinals, const mail::DeliveryStatus& status) {
  Destination& d = *j.connection->destination;
  d.facts.one_domain_until = wall + kOneDomain;
  note_order(d);
  remember(d);
  Message& m = *j.message;
  if (!j.several || m.withdrawn || draining) {  // by the same next hop: there is nothing to split
    go_on(j, ordinals, status);
    return;
  }
  if (j.isolated) m.isolated = true;
  m.one_domain = true;  // whatever is forgotten of the host: it comes here once
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

}  // namespace pen::qmgr
