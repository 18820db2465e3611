/// Where jobs can go: route sets, clusters and destinations, shared by equal keys; what destdb
/// knows of a destination.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

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
  if (const auto it = known_routes.find(f); it != known_routes.end()) return *it->second;
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
    for (const auto& d : level.destinations) out.emplace_back(d.key(), &d);
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
  if (route) return *route;
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
        if (--d.references == 0 && d.holding == 0) {
          m->hungry.unlink();
          const std::string key = d.key;
          destinations.erase(key);
        }
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
  return d.facts.failures > 0 && d.connections.empty() && d.facts.next_retry > wall &&
         d.facts.used >= forgiven;
}

std::uint32_t Model::connection_limit(const Destination& d) const {
  if (d.facts.failures > 0) return 1;  // one connection tries whether it is back
  std::uint32_t limit = d.transport->limits.destination_concurrency;
  if (limit == 0) limit = 1'000'000;
  if (d.facts.tolerated_connections > 0) {
    // Past its time the ceiling is probed by one more connection.
    const std::uint32_t learned =
        d.facts.tolerated_connections + (wall >= d.facts.tolerated_until ? 1U : 0U);
    limit = std::min(limit, learned);
  }
  return limit;
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
  const unsigned shift = std::min<std::uint32_t>(d.facts.failures, 16);
  ++d.facts.failures;
  auto wait =
      std::min<std::int64_t>(options.backoff_min.count() << shift, options.backoff_max.count());
  if (trouble == Trouble::local) wait = std::min<std::int64_t>(wait, options.backoff_min.count());
  // Jitter of a quarter upwards: hosts that failed together are not tried together.
  const auto base = seconds(wait);
  const auto jitter = milliseconds(random.below(static_cast<std::uint64_t>(wait) * 250 + 1));
  d.facts.next_retry = wall + base + jitter;
  remember(d);
}

}  // namespace pen::qmgr::scheduler
