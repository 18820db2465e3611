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

Destination& Model::destination(const ipc::Destination& address, const std::string& key,
                                Transport& t) {
  auto& slot = destinations[key];
  if (!slot) {
    slot = std::make_unique<Destination>();
    slot->key = key;
    slot->address = address;
    slot->transport = &t;
    if (auto facts = table.find(key)) {
      slot->facts = std::move(*facts);
      slot->known = true;
    }
    if (!slot->known) slot->allowance = t.limits.initial_concurrency;
    enter_class(*slot);
    judge(*slot);
  }
  return *slot;
}

Fingerprint Model::fingerprint(const ipc::route::Resolved& answer, const Transport& t) {
  const auto hashed = [&](std::uint64_t low_key) {
    return XXH3_128bits_withSeed(scratch.data(), scratch.size(), fingerprint_key ^ low_key);
  };
  scratch.clear();
  encode_to(scratch, answer.transport);
  encode_to(scratch, answer.nexthop);
  if (t.limits.destination_recipients == 1) encode_to(scratch, answer.recipient);
  auto sum = hashed(0);
  for (std::size_t i = 0; i < answer.levels.size(); ++i) {
    for (const auto& d : answer.levels[i].destinations) {
      scratch.clear();
      encode_to(scratch, d);
      const auto h = hashed(i + 1);
      sum.low64 += h.low64;
      sum.high64 += h.high64;
    }
  }
  return {sum.low64, sum.high64};
}

RouteSet& Model::route_set(const ipc::route::Resolved& answer) {
  Transport& t = transport(answer.transport);
  const Fingerprint f = fingerprint(answer, t);
  if (const auto it = known_routes.find(f); it != known_routes.end()) {
    judge_again(*it->second);
    return *it->second;
  }
  RouteSet& r = make_route_set(answer, t);
  if (r.fingerprint == Fingerprint{}) {  // else the same route in other words
    r.fingerprint = f;
    known_routes.emplace(f, &r);
  }
  return r;
}

RouteSet& Model::make_route_set(const ipc::route::Resolved& answer, Transport& t) {
  // The order within a level is a shuffle and no part of the identity.
  std::vector<std::vector<std::pair<std::string, const ipc::Destination*>>> levels;
  ipc::Destination own;
  if (answer.levels.empty()) {
    own.transport = answer.transport;
    own.host = answer.nexthop;
    levels.push_back({{own.key(), &own}});
  }
  for (const auto& level : answer.levels) {
    auto& out = levels.emplace_back();
    for (const auto& d : level.destinations) {
      out.emplace_back(d.key(), &d);
      // Hosts at one address that belong to different session classes by their names share no connections.
      if (!options.session_class || d.address.empty()) continue;
      if (const auto c = options.session_class(d.host, d.address); c && !c->by_name.empty())
        out.back().first += '\0' + c->by_name;
    }
    std::sort(out.begin(), out.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    out.erase(std::unique(out.begin(), out.end(),
                          [](const auto& a, const auto& b) { return a.first == b.first; }),
              out.end());
    if (out.empty()) levels.pop_back();
  }
  std::string cluster_key;
  for (auto& level : levels) {
    cluster_key += '\1';
    for (auto& [key, d] : level) {
      if (t.limits.destination_recipients == 1) key += '\0' + answer.recipient;
      encode_to(cluster_key, key);
    }
  }
  std::string route_key;
  encode_to(route_key, answer.transport);
  encode_to(route_key, answer.nexthop);
  route_key += cluster_key;
  auto& route = routes[route_key];
  if (route) {
    judge_again(*route);
    return *route;
  }
  route = std::make_unique<RouteSet>();
  route->key = std::move(route_key);
  route->nexthop = answer.nexthop;
  encode_to(cluster_key, answer.transport);
  auto& cluster = clusters[cluster_key];
  if (!cluster) {
    cluster = std::make_unique<Cluster>();
    cluster->key = cluster_key;
    cluster->transport = &t;
    for (std::size_t i = 0; i < levels.size(); ++i) {
      auto& members = cluster->levels.emplace_back();
      for (const auto& [key, address] : levels[i]) {
        Destination& d = destination(*address, key, t);
        ++d.references;
        members.push_back(std::make_unique<Member>(cluster.get(), &d, i));
      }
    }
  }
  route->cluster = cluster.get();
  ++cluster->references;
  judge(*route);
  judge_again(*route);
  return *route;
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
        --d.references;
        drop_if_unused(d);
      }
    }
    const std::string key = c.key;
    clusters.erase(key);
  }
  known_routes.erase(r.fingerprint);
  const std::string key = r.key;
  routes.erase(key);
}

void Model::remember(Destination& d) {
  d.known = true;
  d.facts.used = wall;
  if (d.facts.shown.empty()) d.facts.shown = d.address.shown();
  table.put(d.key, d.facts);
}

bool Model::dead(const Destination& d) const {
  if (!d.suspended.empty()) return true;
  return d.facts.failures > 0 && d.connections.empty() && d.facts.next_retry > wall &&
         d.facts.used >= forgiven;
}

std::uint32_t Model::connection_limit(const Destination& d) const {
  if (d.facts.failures > 0) return 1;  // one connection tries whether it is back
  if (keeps_pace(d)) return 1;
  std::uint32_t limit = d.transport->limits.destination_concurrency;
  if (limit == 0) limit = kNoLimit;
  if (d.allowance > 0) limit = std::min(limit, d.allowance);
  if (d.facts.tolerated_connections > 0) {
    // Past its time the ceiling is probed by one more connection.
    const std::uint32_t learned =
        d.facts.tolerated_connections + (wall >= d.facts.tolerated_until ? 1U : 0U);
    limit = std::min(limit, learned);
  }
  return limit;
}

microseconds Model::back_off(std::uint32_t failures, Trouble trouble,
                             std::optional<seconds> stated) {
  const auto most = options.backoff_max;
  const auto part = [this](microseconds t, std::int64_t divisor) {
    return microseconds(static_cast<std::int64_t>(
        random.below(static_cast<std::uint64_t>(t.count() / divisor) + 1)));
  };
  if (stated) {
    // Its word, within bounds; not before its time, and not all at once.
    const microseconds wait = std::clamp(*stated, std::min(kLeastStated, most), most);
    return wait + part(wait, 10);
  }
  // What costs a worker for the whole of a time-out is tried less often, and who turned us away with 5xx means it. Our
  // own trouble says nothing about the destination.
  const std::int64_t weight = trouble == Trouble::timed_out      ? 2
                              : trouble == Trouble::greeting_5xx ? 4
                                                                 : 1;
  const unsigned shift = trouble == Trouble::local ? 0 : std::min<std::uint32_t>(failures, 16);
  const microseconds wait =
      std::min<seconds>(options.backoff_min * weight * (std::int64_t{1} << shift), most);
  // Up to a quarter less: hosts that failed together are not tried together, and a message that comes back after the
  // same time finds the destination ready to be tried.
  return wait - part(wait, 4);
}

void Model::failed(Destination& d, Trouble trouble, const mail::DeliveryStatus& status) {
  d.facts.trouble = static_cast<std::uint8_t>(trouble);
  d.facts.dsn = status.dsn;
  d.facts.reason = status.text;
  const bool others =
      std::any_of(d.connections.begin(), d.connections.end(),
                  [](const Connection* c) { return c->state == Connection::State::open; });
  if (others && trouble != Trouble::local) {
    // It serves other connections of ours and refuses one more: that is its ceiling, not a failure.
    d.facts.tolerated_connections = static_cast<std::uint32_t>(d.connections.size());
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
