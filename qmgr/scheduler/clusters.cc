/// Where jobs can go: route sets, clusters and destinations, shared by equal keys; what destdb
/// knows of a destination.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "lib/mail/stated_delay.h"
#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

using ipc::delivery::Trouble;

Transport& Model::transport(std::string_view name) {
  auto& slot = transports[std::string(name)];
  if (!slot) {
    slot = std::make_unique<Transport>();
    slot->name = name;
    slot->limits = limits(name);
  }
  return *slot;
}

Destination& Model::destination(const ipc::Destination& address, const std::string& key, Transport& t) {
  auto& slot = destinations[key];
  if (!slot) {
    slot = std::make_unique<Destination>();
    slot->key = key;
    slot->address = address;
    slot->transport = &t;
    if (auto facts = table.find(key)) {
      slot->facts = std::move(*facts);
      slot->known = true;
      note_order(*slot);
    }
    if (!slot->known) slot->allowance = t.limits.initial_concurrency;
    enter_class(*slot);
    judge(*slot);
  }
  return *slot;
}

// What Destination::key() says, and the level, in a sum: within a level the order is a shuffle and no part of the
// identity.
Model::Fingerprints Model::fingerprints(const ipc::route::Resolved& answer, const Transport& t) {
  const auto hashed = [this](std::uint64_t level) {
    return XXH3_128bits_withSeed(scratch.data(), scratch.size(), fingerprint_key ^ level);
  };
  const bool own = t.limits.destination_recipients == 1;  // the recipient is the destination
  Fingerprint cluster;
  std::uint64_t number = 1;
  for (const auto& level : answer.levels) {
    if (level.destinations.empty()) continue;
    for (const auto& d : level.destinations) {
      scratch.clear();
      d.append_key(scratch);
      if (options.session_class) scratch.append(1, '\0').append(d.host);  // its class may go by it
      if (own) scratch.append(1, '\0').append(answer.recipient);
      const auto h = hashed(number);
      cluster.low += h.low64;
      cluster.high += h.high64;
    }
    ++number;
  }
  scratch.clear();
  scratch.append(answer.transport).append(1, '\0').append(answer.nexthop);
  if (own) scratch.append(1, '\0').append(answer.recipient);
  const auto h = hashed(0);
  if (number == 1) cluster = {h.low64, ~h.high64};  // the next hop is the destination
  return {{cluster.low + h.low64, cluster.high + h.high64}, cluster};
}

RouteSet& Model::route_set(const ipc::route::Resolved& answer) {
  Transport& t = transport(answer.transport);
  const Fingerprints f = fingerprints(answer, t);
  cluster_numbers.prefetch(f.cluster.low);  // nearly every second route is new
  std::uint64_t number = 0;
  RouteSet* known = find_by(route_numbers, f.route, number);
  const bool fresh = known == nullptr;
  if (fresh) {
    const auto made = routes.make();
    known = &made.object;
    known->slot = made.number;
    known->number = number;
    route_numbers.insert(number, known);
  }
  RouteSet& r = *known;
  if (fresh) {
    r.fingerprint = f.route;
    r.nexthop = answer.nexthop;
    r.cluster = &cluster(answer, f.cluster, t);
    ++r.cluster->references;
    judge(r);
  }
  judge_again(r);
  return r;
}

Cluster& Model::make_cluster(const Fingerprint& f, std::uint64_t number, Transport& t) {
  const auto made = clusters.make();
  Cluster& c = made.object;
  c.slot = made.number;
  c.number = number;
  cluster_numbers.insert(number, &c);
  c.fingerprint = f;
  c.transport = &t;
  return c;
}

Cluster& Model::cluster(const ipc::route::Resolved& answer, const Fingerprint& f, Transport& t) {
  std::uint64_t number = 0;
  if (Cluster* const known = find_by(cluster_numbers, f, number)) return *known;
  Cluster& c = make_cluster(f, number, t);
  // By key, so that equal clusters are equal; one that is named twice counts once.
  using Named = std::pair<std::string, const ipc::Destination*>;
  const auto add = [&](std::vector<Named> level) {
    if (level.empty()) return;
    std::sort(level.begin(), level.end(), [](const Named& x, const Named& y) { return x.first < y.first; });
    level.erase(
        std::unique(level.begin(), level.end(), [](const Named& x, const Named& y) { return x.first == y.first; }),
        level.end());
    auto& members = c.levels.emplace_back();
    members.reserve(level.size());
    for (auto& [key, address] : level) {
      if (t.limits.destination_recipients == 1) key += '\0' + answer.recipient;
      Destination& d = destination(*address, key, t);
      ++d.references;
      members.push_back(std::make_unique<Member>(&c, &d, c.levels.size() - 1));
    }
  };
  for (const auto& level : answer.levels) {
    std::vector<Named> named;
    named.reserve(level.destinations.size());
    for (const auto& d : level.destinations) {
      named.emplace_back(d.key(), &d);
      // Hosts at one address that belong to different session classes by their names share no connections.
      if (!options.session_class || d.address.empty()) continue;
      if (const auto found = options.session_class(d.host, d.address); found && !found->by_name.empty())
        named.back().first += '\0' + found->by_name;
    }
    add(std::move(named));
  }
  if (c.levels.empty()) {
    ipc::Destination own;
    own.transport = answer.transport;
    own.host = answer.nexthop;
    add({{own.key(), &own}});
  }
  return c;
}

void Model::reference(RouteSet& r) { ++r.references; }

void Model::release(RouteSet& r) {
  PEN_CHECK(r.references > 0);
  if (--r.references > 0 || r.parked) return;
  r.parked = true;
  spare_routes.push_back(&r);
  while (spare_routes.size() > options.kept_routes) {
    RouteSet* old = spare_routes.front();
    spare_routes.pop_front();
    old->parked = false;
    if (old->references == 0) drop_route(*old);
  }
}

void Model::drop_route(RouteSet& r) {
  Cluster& c = *r.cluster;
  if (--c.references == 0) {
    for (auto& level : c.levels) {
      for (auto& m : level) {
        Destination& d = *m->destination;
        for (Connection* held : d.connections) {
          if (held->last_cluster == &c) held->last_cluster = nullptr;
        }
        m->hungry.unlink();
        m->starved.unlink();
        --d.references;
        drop_if_unused(d);
      }
    }
    cluster_numbers.erase(c.number);
    clusters.destroy(c.slot);
  }
  route_numbers.erase(r.number);
  routes.destroy(r.slot);
}

void Model::remember(Destination& d) {
  d.known = true;
  d.facts.used = wall;
  if (d.facts.shown.empty()) d.facts.shown = d.address.shown();
  table.put(d.key, d.facts);
}

bool Model::dead(const Destination& d) const {
  if (!d.suspended.empty()) return true;
  return d.facts.failures > 0 && d.connections.empty() && d.facts.next_retry > wall && d.facts.used >= forgiven;
}

std::uint32_t Model::connection_limit(const Destination& d) const {
  const std::uint32_t limit = limit_in_time(d);
  return d.allowance > 0 ? std::min(limit, d.allowance + d.elsewhere) : limit;
}

std::uint32_t Model::limit_in_time(const Destination& d) const {
  if (d.facts.failures > 0) return 1;  // one connection tries whether it is back
  if (keeps_pace(d)) return 1;
  std::uint32_t limit = d.transport->limits.destination_concurrency;
  if (limit == 0) limit = kNoLimit;
  if (const std::uint32_t paying = paying_limit(d); paying > 0) limit = std::min(limit, paying);
  if (d.facts.tolerated_connections > 0) {
    // Past its time the ceiling is probed by one more connection.
    const std::uint32_t learned = d.facts.tolerated_connections + (wall >= d.facts.tolerated_until ? 1U : 0U);
    limit = std::min(limit, learned);
  }
  return limit;
}

microseconds Model::back_off(std::uint32_t failures, Trouble trouble, std::optional<seconds> stated) {
  const auto most = options.backoff_max;
  const auto part = [this](microseconds t, std::int64_t divisor) {
    return microseconds(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(t.count() / divisor) + 1)));
  };
  if (stated) {
    // Its word, within bounds; not before its time, and not all at once.
    const microseconds wait = std::clamp(*stated, std::min(kLeastStated, most), most);
    return wait + part(wait, 10);
  }
  // What costs a worker for the whole of a time-out is tried less often, and who turned us away with 5xx means it. Our
  // own trouble says nothing about the destination.
  const std::int64_t weight = trouble == Trouble::timed_out ? 2 : trouble == Trouble::greeting_5xx ? 4 : 1;
  const unsigned shift = trouble == Trouble::local ? 0 : std::min<std::uint32_t>(failures, 16);
  const microseconds wait = std::min<seconds>(options.backoff_min * weight * (std::int64_t{1} << shift), most);
  // Up to a quarter less: hosts that failed together are not tried together, and a message that comes back after the
  // same time finds the destination ready to be tried.
  return wait - part(wait, 4);
}

void Model::failed(Destination& d, Trouble trouble, const mail::DeliveryStatus& status) {
  d.facts.trouble = static_cast<std::uint8_t>(trouble);
  d.facts.dsn = status.dsn;
  d.facts.reason = status.text;
  const bool others = std::any_of(d.connections.begin(), d.connections.end(),
                                  [](const Connection* c) { return c->state == Connection::State::open; });
  if (others && trouble != Trouble::local) {
    // It serves other connections of ours and refuses one more: that is its ceiling, not a failure.
    d.facts.tolerated_connections = static_cast<std::uint32_t>(d.connections.size()) + d.elsewhere;
    d.facts.tolerated_until = wall + options.ceiling_time;
    remember(d);
    return;
  }
  // one outage counts once, however many connections met it
  if (d.facts.failures > 0 && d.facts.next_retry > wall && d.facts.used >= forgiven) {
    remember(d);
    return;
  }
  d.facts.next_retry = wall + back_off(d.facts.failures, trouble, mail::stated_delay(status));
  ++d.facts.failures;
  remember(d);
}

}  // namespace pen::qmgr::scheduler
