#define XXH_INLINE_ALL
#include "qmgr/scheduler/routes.h"

#include <xxhash.h>

#include <algorithm>

#include "lib/base/check.h"
#include "lib/queue/destdb/host_facts.h"
#include "qmgr/scheduler/connection.h"

namespace pen::qmgr::scheduler {

Transport& Routes::transport(std::string_view name) {
  auto& slot = transports_[std::string(name)];
  if (!slot) {
    slot = std::make_unique<Transport>();
    slot->name = name;
    slot->limits = limits_(name);
  }
  return *slot;
}

Destination& Routes::make_destination(const ipc::Destination& address, const std::string& key, Transport& t) {
  auto& slot = destinations_[key];
  if (!slot) {
    slot = std::make_unique<Destination>();
    slot->key = key;
    slot->address = address;
    slot->transport = &t;
    if (!address.source.empty()) {
      ipc::Destination host = address;
      host.source.clear();
      slot->host_key = host.key() + key.substr(address.key().size());
    }
    if (auto facts = table_.find(key)) {
      slot->facts = std::move(*facts);
      slot->known = true;
      notes_.host_order.note(*slot);
    }
    if (!slot->host_key.empty()) {
      if (const auto host = table_.find(slot->host_key)) destdb::copy_host_facts(*host, slot->facts);
    }
    notes_.session_classes.enter(*slot);
    notes_.suspensions.judge(*slot);
    notes_.shaping.enter(*slot);
  }
  return *slot;
}

// What Destination::key() says, and the level, in a sum: within a level the order is a shuffle and no part of the
// identity.
Routes::Fingerprints Routes::fingerprints(const ipc::route::Resolved& answer, const Transport& t) {
  const auto hashed = [this](std::uint64_t level) {
    return XXH3_128bits_withSeed(scratch_.data(), scratch_.size(), key_ ^ level);
  };
  const bool own = t.limits.destination_recipients == 1;  // the recipient is the destination
  Fingerprint cluster;
  std::uint64_t number = 1;
  for (const auto& level : answer.levels) {
    if (level.destinations.empty()) continue;
    for (const auto& d : level.destinations) {
      scratch_.clear();
      d.append_key(scratch_);
      if (options_.session_class) scratch_.append(1, '\0').append(d.host);  // its class may go by it
      if (own) scratch_.append(1, '\0').append(answer.recipient);
      const auto h = hashed(number);
      cluster.low += h.low64;
      cluster.high += h.high64;
    }
    ++number;
  }
  scratch_.clear();
  scratch_.append(answer.transport).append(1, '\0').append(answer.nexthop);
  if (own) scratch_.append(1, '\0').append(answer.recipient);
  const auto h = hashed(0);
  if (number == 1) cluster = {h.low64, ~h.high64};  // the next hop is the destination
  return {{cluster.low + h.low64, cluster.high + h.high64}, cluster};
}

RouteSet& Routes::find(const ipc::route::Resolved& answer) {
  Transport& t = transport(answer.transport);
  const Fingerprints f = fingerprints(answer, t);
  cluster_numbers_.prefetch(f.cluster.low);  // nearly every second route is new
  std::uint64_t number = 0;
  RouteSet* known = find_by(route_numbers_, f.route, number);
  const bool fresh = known == nullptr;
  if (fresh) {
    const auto made = routes_.make();
    known = &made.object;
    known->slot = made.number;
    known->number = number;
    route_numbers_.insert(number, known);
  }
  RouteSet& r = *known;
  if (fresh) {
    r.fingerprint = f.route;
    r.nexthop = answer.nexthop;
    r.cluster = &cluster(answer, f.cluster, t);
    ++r.cluster->references;
    notes_.suspensions.judge(r);
  }
  return r;
}

Cluster& Routes::make_cluster(const Fingerprint& f, std::uint64_t number, Transport& t) {
  const auto made = clusters_.make();
  Cluster& c = made.object;
  c.slot = made.number;
  c.number = number;
  cluster_numbers_.insert(number, &c);
  c.fingerprint = f;
  c.transport = &t;
  return c;
}

Cluster& Routes::cluster(const ipc::route::Resolved& answer, const Fingerprint& f, Transport& t) {
  std::uint64_t number = 0;
  if (Cluster* const known = find_by(cluster_numbers_, f, number)) return *known;
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
      Destination& d = make_destination(*address, key, t);
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
      if (!options_.session_class || d.address.empty()) continue;
      if (const auto found = options_.session_class(d.host, d.address); found && !found->by_name.empty())
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
  notes_.shaping.enter(c);
  return c;
}

void Routes::release(RouteSet& r) {
  PEN_CHECK(r.references > 0);
  if (--r.references > 0 || r.parked) return;
  r.parked = true;
  spare_.push_back(&r);
  while (spare_.size() > options_.kept_routes) {
    RouteSet* old = spare_.front();
    spare_.pop_front();
    old->parked = false;
    if (old->references == 0) drop(*old);
  }
}

void Routes::put_back(RouteSet& r) {
  if (--r.references > 0 || r.parked) return;
  r.parked = true;
  spare_.push_back(&r);
}

void Routes::drop_if_unused(Destination& d) {
  if (d.references > 0 || d.holding > 0 || !notes_.rate_delay.forget(d)) return;
  notes_.session_classes.leave_line(d);
  notes_.shaping.leave(d);
  const std::string key = d.key;
  destinations_.erase(key);
}

Destination* Routes::destination(std::string_view key) const {
  const auto it = destinations_.find(std::string(key));
  return it == destinations_.end() ? nullptr : it->second.get();
}

void Routes::drop(RouteSet& r) {
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
    notes_.shaping.leave(c);
    cluster_numbers_.erase(c.number);
    clusters_.destroy(c.slot);
  }
  route_numbers_.erase(r.number);
  routes_.destroy(r.slot);
}

RouteSet& Routes::changed(RouteSet& r, std::span<Destination* const> hosts, Change change) {
  Fingerprint mark;
  for (const Destination* d : hosts) {
    const auto h =
        XXH3_128bits_withSeed(d->key.data(), d->key.size(), key_ ^ (static_cast<std::uint64_t>(change) << 32));
    mark.low += h.low64;
    mark.high += h.high64;
  }
  const auto marked = [&mark](const Fingerprint& f) { return Fingerprint{f.low + mark.low, f.high + mark.high}; };
  std::uint64_t number = 0;
  if (RouteSet* known = find_by(route_numbers_, marked(r.fingerprint), number)) {
    known->suspended = r.suspended;
    known->judged = r.judged;
    return *known;
  }
  const auto made = routes_.make();
  RouteSet& other = made.object;
  other.slot = made.number;
  other.number = number;
  route_numbers_.insert(number, &other);
  other.fingerprint = marked(r.fingerprint);
  other.nexthop = r.nexthop;
  other.cluster = &changed(*r.cluster, hosts, change, marked(r.cluster->fingerprint));
  ++other.cluster->references;
  other.suspended = r.suspended;
  other.judged = r.judged;
  return other;
}

Cluster& Routes::changed(const Cluster& from, std::span<Destination* const> hosts, Change change,
                         const Fingerprint& fingerprint) {
  std::uint64_t number = 0;
  if (Cluster* const known = find_by(cluster_numbers_, fingerprint, number)) return *known;
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
  notes_.shaping.enter(c, &from);
  return c;
}

RouteSet& Routes::in_order(RouteSet& r) {
  if (!notes_.host_order.any_last() || !r.cluster->has_several()) return r;  // nearly always
  std::vector<Destination*> last;
  bool others = false;
  for (const auto& level : r.cluster->levels) {
    for (const auto& m : level) {
      if (notes_.host_order.asked_last(*m->destination))
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

RouteSet& Routes::without(RouteSet& r, Destination& host) {
  Destination* const tried[] = {&host};
  return changed(r, tried, Change::without);
}

}  // namespace pen::qmgr::scheduler
