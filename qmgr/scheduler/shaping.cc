#include "qmgr/scheduler/shaping.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/base/text.h"
#include "qmgr/scheduler/cluster.h"
#include "qmgr/scheduler/destination.h"

namespace pen::qmgr::scheduler {

namespace {
// Jobs that have passed a gate look for a connection; more than a second's would only lie there.
constexpr std::uint64_t kPassedAtLeast = 4;
constexpr std::size_t kMaxGroupName = 200;
constexpr seconds kSenderKept{60};  // as long as its last minute counts
constexpr seconds kListen{5};       // as SharedRates::Options::look

/// A next hop's domain or host: "[relay.example]:587" is relay.example.
std::string domain_of(std::string_view nexthop) {
  if (nexthop.starts_with('[')) {
    nexthop.remove_prefix(1);
    nexthop = nexthop.substr(0, nexthop.find(']'));
  } else if (const auto colon = nexthop.find(':'); colon != std::string_view::npos && colon == nexthop.rfind(':')) {
    nexthop = nexthop.substr(0, colon);
  }
  return to_lower(nexthop);
}

// The key of the gate for mail without a source, which differs from the one for mail from all sources.
constexpr std::string_view kNoSource = "-";

std::string key_of(const Gate& g) { return g.group + '\0' + g.source + '\0' + g.domain; }
// In redis; a name is of a limit that was set.
std::string shared_key_of(const Gate& g) { return fmt::format("{}|{}|{}|{}", g.group, g.source, g.domain, g.name); }
}  // namespace

// --- groups and their clusters ---

Group& Shaping::group_of(const std::string& name, const shaping::Provider* provider) {
  auto& slot = groups_[name];
  if (!slot) {
    slot = std::make_unique<Group>();
    slot->name = name;
    slot->provider = provider;
    slot->all.group = name;
    load(slot->all);
  }
  return *slot;
}

void Shaping::enter(Cluster& c, const Cluster* from) {
  if (!on()) return;
  if (from != nullptr) {
    c.group = from->group;
    c.gate = from->gate;
  } else {
    std::vector<std::string> hosts;
    std::vector<shaping::Host> addressed;
    for (const auto& level : c.levels) {
      for (const auto& m : level) {
        const ipc::Destination& address = m->destination->address;
        hosts.push_back(to_lower(address.host));
        addressed.push_back({address.host, address.address});
      }
    }
    std::ranges::sort(hosts);
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    const shaping::Provider* const provider = options_.shaping->rules.provider_of(addressed);
    // The hosts of a route without a provider share a limit only with routes that have the same hosts: a domain
    // that names another's host beside its own must not slow others.
    std::string name = provider != nullptr ? provider->name : join(hosts, ",");
    if (name.size() > kMaxGroupName)
      name = fmt::format("{}…{:016x}", name.substr(0, kMaxGroupName - 20), std::hash<std::string>{}(name));
    c.group = &group_of(name, provider);
    if (const shaping::Rates& rates = c.transport->limits.rate_limit; rates.limits()) {
      auto& gates = c.group->transports;
      auto at = std::ranges::find(gates, c.transport->name, [](const auto& g) { return g->name; });
      if (at == gates.end()) {
        at = gates.insert(gates.end(), std::make_unique<Gate>());
        (*at)->group = c.group->name;
        (*at)->name = c.transport->name;
        (*at)->set.rates = rates;
        learned_changed(**at);
      }
      c.gate = at->get();
    }
  }
  ++c.group->references;
  for (const auto& level : c.levels)
    for (const auto& m : level)
      if (m->destination->group != c.group->name) m->destination->group = c.group->name;
}

void Shaping::leave(Cluster& c) {
  if (c.group != nullptr) --c.group->references;  // sweep() has the rest
}

void Shaping::enter(Destination& d) {
  if (!on() || d.address.host.empty()) return;
  const auto* provider = options_.shaping->rules.provider_of(d.address.host, d.address.address);
  if (provider == nullptr) return;
  d.provider = &group_of(provider->name, provider);
  d.provider->hosts.push_back(d.in_provider);
}

void Shaping::leave(Destination& d) { d.in_provider.unlink(); }

Sender& Shaping::sender_of(std::string_view domain) {
  auto& slot = senders_[std::string(domain)];
  if (!slot) {
    slot = std::make_unique<Sender>();
    slot->domain = domain;
  }
  ++slot->messages;
  return *slot;
}

void Shaping::enter(Message& m, std::string_view sender_domain, std::string_view signer) {
  if (!on()) return;
  m.sender = &sender_of(sender_domain);
  if (!signer.empty() && signer != sender_domain) m.signer = &sender_of(signer);
}

void Shaping::leave(Message& m) {
  for (Sender* const s : {std::exchange(m.sender, nullptr), std::exchange(m.signer, nullptr)})
    if (s != nullptr && --s->messages == 0) s->idle_since = clock_.now;
}

void Shaping::sweep() {
  if (clock_.now < swept_ + kSenderKept) return;
  swept_ = clock_.now;
  const auto unused = [this](Gate& g) {
    if (g.waiting > 0 || g.passed > 0 || g.under_way > 0) return false;
    waking_.erase({g.wakes, &g});
    g.wakes = kNever;
    std::erase(dirty_, &g);
    g.dirty = false;
    shared_.erase(g.shared_key);
    spent_.leaves(g);
    return true;
  };
  std::erase_if(senders_, [&](auto& at) {
    Sender& s = *at.second;
    return s.messages == 0 && s.idle_since + kSenderKept <= clock_.now && std::ranges::all_of(s.flows, [&](auto& f) {
             return std::ranges::all_of(std::array{&f->sends, &f->signs},
                                        [&](Flow::Side* side) { return side->gate == nullptr || unused(*side->gate); });
           });
  });
  std::erase_if(groups_, [&](auto& at) {
    Group& g = *at.second;
    return g.references == 0 && g.provider == nullptr && unused(g.all) &&
           std::ranges::all_of(g.sources, [&](auto& s) { return unused(*s); }) &&
           std::ranges::all_of(g.transports, [&](auto& t) { return unused(*t); });
  });
  std::erase_if(resting_recipients_, [this](const auto& at) { return at.second <= clock_.now; });
  std::erase_if(told_, [this](const auto& at) { return at.second + kTellAgain <= clock_.now; });
}

// --- gates ---

void Shaping::load(Gate& g) {
  if (auto known = table_.find_learned(key_of(g))) g.learned = std::move(*known);
  learned_changed(g);
  // Sends what was learned while there was no server.
  if (g.learned.used != WallTime{})
    tell_others(g, std::chrono::floor<milliseconds>(std::max(clock_.wall - g.learned.used, WallTime::duration(0))));
}

void Shaping::keep(Gate& g) {
  g.learned.used = clock_.wall;
  table_.put_learned(key_of(g), g.learned);
  tell_others(g);
}

std::string_view Shaping::source_of(const Cluster& c) {
  return c.levels.empty() || c.levels.front().empty() ? std::string_view()
                                                      : c.levels.front().front()->destination->address.source;
}

std::string_view Shaping::source_of(const Job& j) { return source_of(*j.route->cluster); }

// --- the cluster ---

void Shaping::share(Gate& g) {
  if (g.source == kNoSource || table_.shared_rates() == nullptr) return;
  if (g.shared_key.empty()) g.shared_key = shared_key_of(g);
  shared_[g.shared_key] = &g;
}

shaping::SharedRates* Shaping::together(const Gate& g) const {
  auto* const rates = g.shared_key.empty() ? nullptr : table_.shared_rates();
  // By one clock: a gate that is open by one clock and closed by another would be asked for ever.
  if (rates != nullptr) rates->set_time(clock_.now);
  return rates;
}

std::uint32_t Shaping::deliveries(const Gate& g) const {
  const std::uint32_t all = g.deliveries();
  return all == 0 || together(g) == nullptr ? all : std::max(1U, all / hosts());
}

std::uint32_t Shaping::hosts() const {
  const auto* const rates = table_.shared_rates();
  return rates == nullptr ? 1 : rates->hosts();
}

void Shaping::rate_ready(const std::string& key) {
  const auto at = shared_.find(key);
  if (at != shared_.end() && at->second->waiting > 0) mark(*at->second);
}

void Shaping::tell_others(Gate& g, milliseconds age) {
  auto* const rates = together(g);
  if (rates == nullptr) return;
  rates->learned(g.shared_key, encode(g.learned), age);
  table_.shared_rates_asked();
}

void Shaping::listen(const Job& j) {
  if (table_.shared_rates() == nullptr) return;
  for (unsigned kind = 0; kind < kKinds; ++kind) {
    Gate* const g = gate_of(j, kind);
    if (g == nullptr || g->listened + kListen > clock_.now) continue;
    if (g->bucket.rate().limits() && g->held_until <= clock_.now) continue;  // with each request for a token
    g->listened = clock_.now;
    if (auto* const rates = together(*g)) {
      (void)rates->available(g->shared_key);
      table_.shared_rates_asked();
    }
  }
}

namespace {
/// The same as the clock of this host has it.
shaping::Learned by_own_clock(shaping::Learned l, WallTime::duration ahead) {
  for (WallTime* const time : {&l.complained, &l.held_until, &l.next_rise, &l.connections_until, &l.used})
    if (*time != WallTime{}) *time += ahead;
  return l;
}
}  // namespace

void Shaping::rate_heard(const std::string& key, std::string_view text, milliseconds age) {
  const auto at = shared_.find(key);
  if (at == shared_.end()) return;
  Gate& g = *at->second;
  auto heard = decode<shaping::Learned>(text);
  if (!heard) return;
  *heard = by_own_clock(*std::move(heard), clock_.wall - age - heard->used);
  // It was sent before the other host knew of a complaint that came here: it would undo what that complaint led to.
  constexpr seconds kTold{1};
  const bool forgotten = heard->used == WallTime{};
  if (!forgotten && heard->complained + kTold < g.learned.complained) return keep(g);
  heard->ordered = g.learned.ordered;  // an order holds for the host that it was given to
  heard->ordered_rates = g.learned.ordered_rates;
  g.learned = *std::move(heard);
  if (g.learned == shaping::Learned{})
    table_.forget_learned(key_of(g));
  else
    table_.put_learned(key_of(g), g.learned);
  learned_changed(g);
  if (g.waiting > 0) mark(g);
}

namespace {
/// This host's part of so many: all parts together are no more. Where there are more hosts than messages each has one
/// in as many times as it takes until all have had theirs.
shaping::Quota part_of(const shaping::Quota& whole, std::uint32_t hosts) {
  if (whole.most >= hosts) return {whole.most / hosts, whole.within};
  return {1,
          whole.within * static_cast<std::int64_t>((hosts + whole.most - 1) / std::max<std::uint64_t>(whole.most, 1))};
}
}  // namespace

void Shaping::set_quotas(Gate& g) {
  const shaping::Rates ordered = shaping::ordered(g.learned);
  if (g.quotas.empty() && g.set.rates.quotas.empty() && ordered.quotas.empty()) return;
  std::vector<shaping::Quota> wanted = g.set.rates.quotas;
  for (const shaping::Quota& q : ordered.quotas) {
    const auto at = std::ranges::find(wanted, q.within, &shaping::Quota::within);
    if (at == wanted.end())
      wanted.push_back(q);
    else
      at->most = std::min(at->most, q.most);
  }
  std::ranges::sort(wanted, {}, &shaping::Quota::within);
  g.divided_among = together(g) != nullptr ? hosts() : 1;
  if (wanted.empty()) spent_.leaves(g);
  std::vector<GateQuota> before = std::exchange(g.quotas, {});
  for (const shaping::Quota& q : wanted) {
    const auto known = std::ranges::find(before, q.within, [](const GateQuota& b) { return b.whole.within; });
    GateQuota& now = g.quotas.emplace_back(known == before.end() ? GateQuota{} : std::move(*known));
    now.whole = q;
    now.window.set(part_of(q, g.divided_among));
  }
  if (!wanted.empty()) spent_.recall(g);
}

void Shaping::learned_changed(Gate& g) {
  shaping::Rate rate = shaping::limit(g.learned, options_.shaping->pace);
  const shaping::Rate set = g.set.rates.rate;
  if (set.limits() && (!rate.limits() || set < rate)) rate = set;
  g.bucket.set(rate, clock_.now);
  share(g);
  set_quotas(g);
  if (auto* const rates = together(g)) {
    rates->set_rate(g.shared_key, rate);
    table_.shared_rates_asked();
  }
  g.held_until = shaping::held(g.learned, clock_.wall)
                     ? clock_.now + std::chrono::duration_cast<SteadyTime::duration>(g.learned.held_until - clock_.wall)
                     : SteadyTime{};
  if (g.rose == SteadyTime{}) g.rose = clock_.now;
}

Gate& Shaping::source_gate(Group& g, std::string_view source) {
  if (source.empty()) source = kNoSource;
  const auto at = std::ranges::find(g.sources, source, [](const auto& s) -> std::string_view { return s->source; });
  if (at != g.sources.end()) return **at;
  Gate& made = *g.sources.emplace_back(std::make_unique<Gate>());
  made.group = g.name;
  made.source = source;
  load(made);
  return made;
}

Gate* Shaping::named(const std::string& name) {
  if (!options_.shaping->limit) return nullptr;
  const auto limit = options_.shaping->limit(name);
  const auto at = named_.find(name);
  if (at == named_.end() && limit == ShapingOptions::Limit{}) return nullptr;
  auto& slot = at == named_.end() ? named_[name] : at->second;
  if (!slot) {
    slot = std::make_unique<Gate>();
    slot->name = name;
    slot->holds_deliveries = true;
  }
  if (slot->set != limit) {
    slot->set = limit;
    learned_changed(*slot);
    if (slot->waiting > 0) mark(*slot);
  }
  return slot.get();
}

Gate* Shaping::named_source(std::string_view source) {
  if (source.empty()) return nullptr;
  NamedSource& known = named_sources_[std::string(source)];
  if (known.judged == SteadyTime{} || old(known.judged)) {
    known.judged = clock_.now;
    known.gate = named("source:" + std::string(source));
  }
  return known.gate;
}

void Shaping::judge(const Job& j) {
  if (!sets_limits_ || j.route->cluster->group == nullptr) return;
  RouteSet& r = *j.route;
  Group& g = *r.cluster->group;
  if (r.limits_judged == SteadyTime{} || old(r.limits_judged)) {
    r.limits_judged = clock_.now;
    r.gate = named("domain:" + domain_of(r.nexthop));
    // The route may have hosts of several.
    for (const auto& level : r.cluster->levels)
      for (const auto& m : level)
        if (m->destination->provider != nullptr) judge(*m->destination->provider);
  }
  judge(g);
  if (Tenant* t = j.message->tenant; t != nullptr && (t->judged == SteadyTime{} || old(t->judged))) {
    t->judged = clock_.now;
    t->limit = t->name.empty() ? nullptr : named("tenant:" + t->name);
  }
}

void Shaping::judge(Group& g) {
  if (g.provider == nullptr || (g.judged != SteadyTime{} && !old(g.judged))) return;
  g.judged = clock_.now;
  const auto& asked = options_.shaping->limit;
  auto limit = asked ? asked("provider:" + g.name) : ShapingOptions::Limit{};
  if (!limit.limits()) limit = g.provider->limit;
  if (limit == g.all.set) return;
  g.all.set = limit;
  learned_changed(g.all);
  if (g.all.waiting > 0) mark(g.all);
}

Gate& Shaping::make_gate(Flow& f, Flow::Side& side, const Sender& s) {
  side.gate = std::make_unique<Gate>();
  side.gate->group = f.group->name;
  side.gate->domain = &side == &f.signs ? signed_by(s.domain) : s.domain;
  side.gate->delivered = side.delivered;
  load(*side.gate);
  return *side.gate;
}

Flow* Shaping::flow_of(Sender* s, Group& g) {
  if (g.provider == nullptr || s == nullptr || s->domain.empty()) return nullptr;
  const auto at = std::ranges::find(s->flows, &g, [](const auto& f) { return f->group; });
  if (at != s->flows.end()) return at->get();
  Flow& f = *s->flows.emplace_back(std::make_unique<Flow>());
  f.group = &g;
  // In a cluster another host may learn of it.
  const auto learned = [&](const std::string& domain) {
    return table_.shared_rates() != nullptr || table_.find_learned(g.name + '\0' + '\0' + domain);
  };
  if (learned(s->domain)) make_gate(f, f.sends, *s);
  if (learned(signed_by(s->domain))) make_gate(f, f.signs, *s);
  return &f;
}

Gate* Shaping::gate_of(const Job& j, unsigned kind) {
  const RouteSet& r = *j.route;
  if (r.cluster->group == nullptr) return nullptr;
  switch (kind) {
    case 0:
      return &r.cluster->group->all;
    case 1:
      return &source_gate(*r.cluster->group, source_of(j));
    case 2:
      return r.cluster->gate;
    case 3:
      return r.gate;
    case 4:
      return named_source(source_of(j));
    case 5:
      return j.message->tenant == nullptr ? nullptr : j.message->tenant->limit;
    case kSends: {
      Flow* const f = flow_of(j.message->sender, *r.cluster->group);
      return f == nullptr ? nullptr : f->sends.gate.get();
    }
    default: {
      Flow* const f = flow_of(signer_of(*j.message), *r.cluster->group);
      return f == nullptr ? nullptr : f->signs.gate.get();
    }
  }
}

std::pair<Flow*, Flow*> Shaping::flows_of(const Job& j) {
  Group* const g = j.route->cluster->group;
  if (g == nullptr) return {};
  Flow* const sends = flow_of(j.message->sender, *g);
  return {sends, j.message->signer == nullptr ? sends : flow_of(j.message->signer, *g)};
}

void Shaping::refresh(Gate& g) {
  if (!g.quotas.empty() && g.divided_among != (together(g) != nullptr ? hosts() : 1)) set_quotas(g);
  if (g.held_until != SteadyTime{} && g.held_until <= clock_.now) {
    g.held_until = {};
    g.learned.block.clear();
    g.rose = clock_.now;
    g.since_rise = 0;
  }
  if (g.learned.rate == 0 || clock_.wall < g.learned.next_rise) return;
  if (shaping::outdated(g.learned, options_.shaping->pace, clock_.wall)) {
    tell(false, fmt::format("shaping: {}: no complaint for a long time, its limit is forgotten", shown(g)));
    g.learned = {};
    table_.forget_learned(key_of(g));
    learned_changed(g);
    return;
  }
  const auto time = std::chrono::duration_cast<seconds>(clock_.now - g.rose);
  const std::uint64_t by_all = g.since_rise * (together(g) != nullptr ? hosts() : 1);
  const bool used = by_all * 4 >= shaping::limit(g.learned, options_.shaping->pace).in(time) * 3;
  if (shaping::rise(g.learned, options_.shaping->pace, clock_.wall, used)) {
    learned_changed(g);
    tell(false, fmt::format("shaping: {}: no complaint, now {}", shown(g), shaping::to_string(g.bucket.rate())));
  }
  keep(g);
  g.rose = clock_.now;
  g.since_rise = 0;
}

std::size_t Shaping::waiting_behind(const Job& j) {
  std::size_t most = 0;
  if (j.passed == 0) return most;
  each_gate(j, [&](Gate& g, std::uint8_t) {
    if (g.waiting == 0 || !open(g, true)) return;
    std::size_t come = g.waiting;
    if (const auto rate = g.bucket.rate(); rate.limits()) {
      if (g.passed < 2) return;  // this job alone: its token has just come
      come = std::min<std::size_t>(come, rate.in(seconds(1)));
    }
    most = std::max(most, come);
  });
  return most;
}

SteadyTime Shaping::opens(const Gate& g) const {
  if (const auto most = deliveries(g); most > 0 && g.passed + g.under_way >= most) return kNever;
  SteadyTime at = g.held_until;
  if (const auto rate = g.bucket.rate(); rate.limits()) {
    if (g.passed >= kPassedAtLeast + rate.in(seconds(1))) return kNever;
    auto* const rates = together(g);
    const SteadyTime next = rates != nullptr ? rates->next(g.shared_key, g.passed)
                                             : g.bucket.next() + rate.interval() * static_cast<std::int64_t>(g.passed);
    at = std::max(at, next);
  }
  for (const GateQuota& q : g.quotas) at = std::max(at, q.window.opens(g.passed));
  return at;
}

bool Shaping::open(Gate& g, bool at_hand) {
  if (!at_hand) return opens(g) <= clock_.now;
  if (g.held_until > clock_.now) return false;
  if (std::ranges::any_of(g.quotas, [this](const GateQuota& q) { return !q.window.ready(clock_.now); })) return false;
  auto* const rates = together(g);
  return rates != nullptr ? rates->ready(g.shared_key) : g.bucket.ready(clock_.now);
}

void Shaping::take(Gate& g) {
  if (auto* const rates = together(g))
    rates->take(g.shared_key);
  else
    g.bucket.take(clock_.now);
  for (GateQuota& q : g.quotas) q.window.take(clock_.now);
  if (!g.quotas.empty()) spent_.used(g);
  ++g.since_rise;
}

void Shaping::delivered(const Job& j) {
  if (!on() || j.route->cluster->group == nullptr) return;
  Group& g = *j.route->cluster->group;
  const auto count = [this](Gate& gate) {
    gate.delivered.add(clock_.now);
    gate.took = true;
    if (!shaping::taken(gate.learned)) return;
    learned_changed(gate);
    keep(gate);
    if (gate.waiting > 0) mark(gate);
    tell(false,
         fmt::format("shaping: {} takes mail again, now {}", shown(gate), shaping::to_string(gate.bucket.rate())));
  };
  count(g.all);
  count(source_gate(g, source_of(j)));
  const auto count_side = [&](Flow* f, Flow::Side Flow::* which) {
    if (f == nullptr) return;
    Flow::Side& side = f->*which;
    side.delivered.add(clock_.now);
    if (side.gate) count(*side.gate);
  };
  const auto [sends, signs] = flows_of(j);
  count_side(sends, &Flow::sends);
  count_side(signs, &Flow::signs);
}

void Shaping::set_waking(Gate& g) {
  if (g.waiting > 0) share(g);
  // From when anything may go, as far as this host alone knows.
  SteadyTime own = g.held_until;
  for (const GateQuota& q : g.quotas) own = std::max(own, q.window.opens());
  const bool closed = own > clock_.now;
  if (auto* const rates = together(g); rates != nullptr && g.bucket.rate().limits()) {
    const auto waiting = closed ? 0 : g.waiting + g.passed;
    rates->want(g.shared_key, static_cast<std::uint32_t>(std::min<std::uint64_t>(waiting, kNoLimit)));
    table_.shared_rates_asked();
  }
  // Before that no tokens are asked for, so that no answer would wake it.
  const SteadyTime at = g.waiting == 0 ? kNever : closed && together(g) != nullptr ? own : opens(g);
  if (at == g.wakes) return;
  if (g.wakes != kNever) waking_.erase({g.wakes, &g});
  g.wakes = at;
  if (at != kNever) waking_.insert({at, &g});
}

void Shaping::mark(Gate& g) {
  if (g.dirty) return;
  g.dirty = true;
  dirty_.push_back(&g);
}

Gate* Shaping::next_dirty() {
  if (dirty_.empty()) return nullptr;
  Gate* const g = dirty_.back();
  dirty_.pop_back();
  g->dirty = false;
  return g;
}

void Shaping::wake_due() {
  if (!on()) return;
  while (!waking_.empty() && waking_.begin()->first <= clock_.now) {
    Gate& g = *waking_.begin()->second;
    waking_.erase(waking_.begin());
    g.wakes = kNever;
    mark(g);
  }
  sweep();
}

namespace {
/// Which part of a gate's rate the party's tenant has.
struct Part {
  std::uint64_t weight = 1, of = 1;
};
Part part_of(const Gate& g, const Tenant* tenant) {
  if (tenant == nullptr) return {};
  const auto at = g.tenants.find(tenant);
  if (at != g.tenants.end()) return {at->second.weight, g.weights};
  return {tenant->weight, g.weights + tenant->weight};
}

/// How many jobs go before one more of the party is through, itself included: no more than wait, nor more of each party
/// of its tenant than of its own, nor more of each tenant than of its own by weight.
std::size_t turn_of(const Gate& g, const Party* party, std::uint32_t ratio) {
  const auto at = g.shares.find(const_cast<Party*>(party));
  const std::size_t before = at == g.shares.end() ? 0 : at->second->count, fresh = at == g.shares.end() ? 1 : 0;
  // Of its own class so many, and of each other class as many as have their turns meanwhile.
  const auto with_other_classes = [&](const std::array<std::size_t, kUrgencies>& there, std::size_t parties) {
    const UrgencyTurn own = party->turns;
    const std::size_t mine = std::min(there[index_of(own.urgency)] + 1, (before + 1) * (parties + fresh));
    std::size_t all = mine;
    for (const Urgency u : {Urgency::bulk, Urgency::normal, Urgency::urgent})
      if (u != own.urgency)
        all += std::min<std::size_t>(there[index_of(u)], mine * own.cost / qmgr::turn_of(u, ratio).cost);
    return all;
  };
  if (party->tenant == nullptr) return std::min(g.waiting + 1, with_other_classes(g.by_urgency, g.shares.size()));
  const auto known = g.tenants.find(party->tenant);
  const TenantAtGate tenant = known == g.tenants.end() ? TenantAtGate{} : known->second;
  const std::uint64_t own = with_other_classes(tenant.by_urgency, tenant.parties);
  const Part part = part_of(g, party->tenant);
  return std::min<std::size_t>(g.waiting + 1, (own * part.of + part.weight - 1) / part.weight);
}

/// From when the quotas let one through after so many others.
SteadyTime through_quotas(const Gate& g, std::size_t before, SteadyTime now) {
  SteadyTime at = now;
  for (const GateQuota& q : g.quotas) at = std::max(at, q.window.reckoned(g.passed + before, now));
  return at;
}

/// How many the quotas let through within a step from then on. What comes back before `open` comes early, to be there
/// when they open.
std::uint64_t quotas_let_through(const Gate& g, seconds step, SteadyTime from, SteadyTime open, SteadyTime now) {
  std::uint64_t all = UINT64_MAX;
  for (const GateQuota& q : g.quotas) {
    const SteadyTime begin = from > open ? from : open - SteadyTime::duration(1);
    all = std::min(all, q.window.until(std::max(from, open) + step, now) - q.window.until(begin, now));
  }
  return all;
}

/// The one that opens last of those that let nothing through now; nullptr: there is none.
const GateQuota* full_quota(const Gate& g, SteadyTime now) {
  const GateQuota* last = nullptr;
  for (const GateQuota& q : g.quotas)
    if (const SteadyTime at = q.window.opens(); at > now && (last == nullptr || at > last->window.opens())) last = &q;
  return last;
}
}  // namespace

std::optional<mail::DeliveryStatus> Shaping::put_off(Gate& g, Party* party) {
  const auto interval = g.bucket.rate().interval();
  const bool held = g.held_until > clock_.now;
  const SteadyTime at_best = opens(g);
  SteadyTime turn = std::max(clock_.now, at_best == kNever ? g.held_until : at_best);
  const std::size_t before = g.waiting > 0 ? turn_of(g, party, options_.urgency_ratio) : 0;
  turn += interval * static_cast<std::int64_t>(before);
  const SteadyTime open = through_quotas(g, before > 0 ? before - 1 : 0, clock_.now);
  turn = std::max(turn, open);
  const auto most = std::chrono::duration_cast<SteadyTime::duration>(options_.share_time);
  if (turn - clock_.now <= most) return std::nullopt;
  // Messages come back when there is room in the line, as many as there is room for.
  // A learned rate may have risen by then.
  const Part part = part_of(g, party->tenant);
  const auto needed = [&](seconds after) -> std::uint64_t {
    shaping::Rate rate = g.bucket.rate();
    if (!rate.limits()) return kNoLimit;
    if (g.learned.rate > 0 && rate == shaping::Rate{g.learned.rate})
      rate = shaping::at_most_after(g.learned, options_.shaping->pace, after);
    const std::uint64_t all =
        std::min(std::min(rate, shaping::Rate::per_second(10'000)).in(options_.share_time),
                 quotas_let_through(g, options_.share_time, clock_.now + after, open, clock_.now));
    return std::max<std::uint64_t>(all * part.weight / part.of, 1);
  };
  const std::string_view tenant = party->tenant == nullptr ? std::string_view() : party->tenant->name;
  auto returns = g.returns.find(tenant);
  if (returns == g.returns.end()) {
    std::erase_if(g.returns, [this](const auto& of) { return of.second.over(clock_.now, options_.share_time); });
    returns = g.returns.emplace(tenant, Returns{}).first;
  }
  // A wait twice as long may be much too long for a quota: what comes too early waits once more, for less.
  SteadyTime not_before = g.held_until - most;
  if (open > clock_.now) not_before = std::max(not_before, clock_.now + (open - clock_.now) / 2);
  const seconds wait = returns->second.add(clock_.now, not_before, options_.share_time, options_.backoff_max, needed);
  // The time comes first: the peer's words may name other times.
  const GateQuota* const full = full_quota(g, clock_.now);
  const std::string why = held              ? "rests after a complaint"
                          : full != nullptr ? "has had " + shaping::to_string(full->whole)
                                            : "may have " + shaping::to_string(g.bucket.rate());
  std::string text = fmt::format("{} {}, try again in {} seconds", shown(g), why, wait.count());
  if (held && !g.learned.reason.empty()) text += ": " + g.learned.reason.substr(0, 120);
  return mail::make_status(mail::Action::deferred, kPutOff, std::move(text));
}

std::string Shaping::shown(const Gate& g) {
  if (g.group.empty()) return g.name;
  std::string out = g.group;
  if (!g.source.empty() && g.source != kNoSource) out += " from " + g.source;
  if (g.domain.starts_with("d="))
    out += " signed by " + g.domain.substr(2);
  else if (!g.domain.empty())
    out += " of " + g.domain;
  if (!g.name.empty()) out += " by " + g.name;
  return out;
}

// --- connections ---

std::uint32_t Shaping::connections(const Group& g) const {
  std::uint32_t limit = kNoLimit;
  if (g.all.set.connections > 0) limit = std::max(1U, g.all.set.connections / hosts());
  for (const auto& s : g.sources) {
    const shaping::Learned& l = s->learned;
    if (l.connections == 0) continue;
    limit = std::min(limit, clock_.wall < l.connections_until ? l.connections : l.connections + 1);
  }
  return limit;
}

bool Shaping::full(const Destination& d) const {
  return d.provider != nullptr && d.provider->holding >= connections(*d.provider);
}

void Shaping::opened(Group& g) {
  for (const auto& s : g.sources) {
    shaping::Learned& l = s->learned;
    if (l.connections == 0 || g.holding <= l.connections) continue;
    l.connections = g.holding;  // it accepts one more by now; then the next is tried
    l.connections_until = clock_.wall + options_.ceiling_time;
    keep(*s);
  }
}

// --- people ---

LimitState Shaping::state_of(Gate& g) {
  refresh(g);
  LimitState s;
  s.group = g.group;
  if (g.source != kNoSource) s.source = g.source;
  s.domain = g.domain;
  s.name = g.name;
  s.rate = g.bucket.rate();
  for (const GateQuota& q : g.quotas) {
    QuotaState& state = s.quotas.emplace_back();
    state.quota = q.whole;
    state.most = q.window.quota().most;
    state.used = q.window.used(clock_.now);
    if (const SteadyTime at = q.window.opens(); at > clock_.now)
      state.opens = std::chrono::ceil<milliseconds>(at - clock_.now);
  }
  s.set = g.set.rates;
  s.connections = g.set.connections != 0 ? g.set.connections : g.learned.connections;
  s.waiting = g.waiting;
  s.last_minute = g.delivered.count(clock_.now);
  if (g.held_until > clock_.now) s.held = std::chrono::ceil<milliseconds>(g.held_until - clock_.now);
  s.learned = g.learned;
  return s;
}

namespace {
bool tells(const Gate& g) {
  return g.limits() || g.set.connections > 0 || g.learned.connections > 0 || g.learned.ordered > 0;
}
}  // namespace

std::vector<LimitState> Shaping::of_group(Group& g, const std::function<bool(const Gate&)>& wanted) {
  std::vector<LimitState> out;
  const auto add = [&](Gate* gate) {
    if (gate != nullptr && tells(*gate) && (!wanted || wanted(*gate))) out.push_back(state_of(*gate));
  };
  add(&g.all);
  for (const auto& s : g.sources) add(s.get());
  for (const auto& t : g.transports) add(t.get());
  for (const auto& [domain, sender] : senders_)
    for (const auto& f : sender->flows)
      if (f->group == &g)
        for (const Flow::Side* side : {&f->sends, &f->signs}) add(side->gate.get());
  return out;
}

std::vector<LimitState> Shaping::of(const RouteSet& r, const MailOf& mail) {
  if (r.cluster->group == nullptr) return {};
  const std::string_view source = source_of(*r.cluster);
  const auto its_own = [&](const Gate& g) {
    if (!g.source.empty() && g.source != (source.empty() ? kNoSource : source)) return false;
    if (!g.domain.empty() && !mail.sender_domain.empty() && g.domain != mail.sender_domain &&
        g.domain != signed_by(mail.signer.empty() ? mail.sender_domain : mail.signer))
      return false;
    return g.name.empty() || &g == r.cluster->gate;
  };
  std::vector<Group*> groups{r.cluster->group};
  for (const auto& level : r.cluster->levels)
    for (const auto& m : level)
      if (Group* const g = m->destination->provider; g != nullptr && std::ranges::find(groups, g) == groups.end())
        groups.push_back(g);
  std::vector<LimitState> out;
  for (Group* g : groups) std::ranges::move(of_group(*g, its_own), std::back_inserter(out));
  const std::string tenant(mail.tenant);
  for (Gate* g : {named("domain:" + domain_of(r.nexthop)), named_source(source),
                  tenant.empty() ? nullptr : named("tenant:" + tenant)})
    if (g != nullptr && tells(*g)) out.push_back(state_of(*g));
  return out;
}

std::vector<LimitState> Shaping::of(const Destination& d) {
  Group* const g = on() ? group(d.group) : nullptr;
  return g == nullptr ? std::vector<LimitState>() : of_group(*g);
}

void Shaping::each(const std::function<void(const LimitState&)>& see) {
  if (!on()) return;
  std::vector<Group*> all;
  for (const auto& [name, g] : groups_) all.push_back(g.get());
  std::ranges::sort(all, {}, [](const Group* g) -> const std::string& { return g->name; });
  for (Group* g : all)
    for (const LimitState& s : of_group(*g)) see(s);
  each_named(see);
}

void Shaping::each_named(const std::function<void(const LimitState&)>& see) {
  for (const auto& [name, g] : named_)
    if (tells(*g)) see(state_of(*g));
}

Group* Shaping::group(std::string_view name) const {
  const auto at = groups_.find(std::string(name));
  return at == groups_.end() ? nullptr : at->second.get();
}

bool Shaping::order(std::string_view name, const shaping::Rates& rates) {
  if (!on()) return false;
  Group* g = group(name);
  if (g == nullptr) {
    const shaping::Provider* provider = options_.shaping->rules.provider(name);
    if (provider == nullptr) return false;
    g = &group_of(provider->name, provider);
  }
  shaping::order(g->all.learned, rates);
  learned_changed(g->all);
  keep(g->all);
  if (g->all.waiting > 0) mark(g->all);
  return true;
}

std::size_t Shaping::forget(std::string_view name) {
  if (!on()) return 0;
  Group* g = group(name);
  if (const shaping::Provider* provider = options_.shaping->rules.provider(name); g == nullptr && provider != nullptr)
    g = &group_of(provider->name, provider);  // with what destdb has of it
  if (g == nullptr) return 0;
  if (g->provider != nullptr) source_gate(*g, {});
  std::size_t count = 0;
  const auto drop = [&](Gate* gate) {
    if (gate == nullptr || gate->learned == shaping::Learned{}) return;
    ++count;
    gate->learned = {};
    learned_changed(*gate);
    table_.forget_learned(key_of(*gate));
    tell_others(*gate);
    if (gate->waiting > 0) mark(*gate);
  };
  drop(&g->all);
  for (const auto& s : g->sources) drop(s.get());
  for (const auto& [domain, sender] : senders_)
    for (const auto& f : sender->flows)
      if (f->group == g)
        for (const Flow::Side* side : {&f->sends, &f->signs}) drop(side->gate.get());
  return count;
}

}  // namespace pen::qmgr::scheduler
