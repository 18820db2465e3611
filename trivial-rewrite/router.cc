#include "trivial-rewrite/router.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "trivial-rewrite/dane.h"

namespace pen::rewrite {

using async::Task;
using ipc::route::Resolved;
using ipc::route::Unroutable;

namespace {

constexpr seconds kShortest{5}, kLongest{3600};
constexpr std::string_view kLoop = "5.4.6";  // HostFinder: the mail would come back

Unroutable deferred(std::string dsn, std::string text) {
  Unroutable u;
  u.status.action = mail::Action::deferred;
  u.status.dsn = std::move(dsn);
  u.status.text = std::move(text);
  return u;
}

Unroutable unroutable(mail::DeliveryStatus status) {
  Unroutable u;
  u.status = std::move(status);
  return u;
}

/// The length of an enhanced status code of that class at the beginning of the text; 0: none.
std::size_t dsn_size(std::string_view text, char first_digit) {
  std::size_t i = 0;
  for (int part = 0; part < 3; ++part) {
    if (part > 0 && (i >= text.size() || text[i++] != '.')) return 0;
    const std::size_t begin = i;
    while (i < text.size() && ascii_digit(text[i]) && i - begin < 3) ++i;
    if (i == begin) return 0;
  }
  const bool ends = i == text.size() || ascii_space(text[i]);
  return ends && text.front() == first_digit && text[1] == '.' ? i : 0;
}

HostFacts facts_of(const Found& found, const NextHop& hop, const std::string& host) {
  const auto known = found.facts.find({hop.text, host});
  return known == found.facts.end() ? HostFacts() : known->second;
}

}  // namespace

mail::DeliveryStatus status_from_nexthop(std::string_view nexthop, bool retry) {
  mail::DeliveryStatus s;
  s.action = retry ? mail::Action::deferred : mail::Action::failed;
  s.dsn = retry ? "4.0.0" : "5.0.0";
  nexthop = trim(nexthop);
  if (const std::size_t size = dsn_size(nexthop, retry ? '4' : '5'); size != 0) {
    s.dsn = nexthop.substr(0, size);
    nexthop = trim(nexthop.substr(size));
  }
  s.text = printable(nexthop.empty() ? std::string_view("Address is undeliverable") : nexthop, 500);
  return s;
}

Router::Router(async::Loop& loop, map::Asker& tables, net::Resolver& dns,
               std::shared_ptr<const resolve::Resolve> resolve, Transports transports, std::uint64_t seed,
               mta_sts::Finder* sts)
    : loop_(loop),
      tables_(tables),
      dns_(dns),
      sts_(sts),
      resolve_(std::move(resolve)),
      probe_resolve_(resolve_),
      transports_(std::move(transports)),
      random_(seed),
      finder_(loop, tables, dns, random_) {}

Task<Result<void>> Router::add_logins(Found& found, const LoginKeys& keys, std::string sender) {
  for (std::size_t i = 0; i < found.levels.size(); ++i) {
    for (auto& d : found.levels[i].destinations) {
      auto look_up = [keys, sender, hop = found.hops[i].text, host = d.host] { return keys.find(sender, hop, host); };
      auto key = co_await tables_.ask(look_up);
      if (!key) co_return fail(std::move(key).error());
      d.credentials = *std::move(key);
    }
  }
  co_return Result<void>{};
}

Task<void> Router::find_one_tlsa(Router* self, std::string host, unsigned short port, HostFacts facts,
                                 std::shared_ptr<const resolve::DnsFilter> filter, std::shared_ptr<TlsaSets> sets) {
  TlsaSet set = co_await find_tlsa(self->dns_, host, port, std::move(facts), std::move(filter), &self->tables_);
  sets->insert_or_assign(std::move(host), std::move(set));
}

Task<std::shared_ptr<Router::TlsaSets>> Router::find_tlsa_sets(std::set<std::string> hosts, const NextHop& hop,
                                                               const Found& found, const Transport& transport) {
  auto sets = std::make_shared<TlsaSets>();
  async::Gate gate(loop_);  // dies with its tasks when this function ends
  for (const auto& host : hosts) {
    HostFacts facts = facts_of(found, hop, host);
    facts.secure = facts.secure || transport.tls.force_tlsa();
    if (facts.canonical.empty()) facts.canonical = host;
    gate.spawn("TLSA of " + host, find_one_tlsa(this, host, hop.port, std::move(facts), transport.hosts.filter, sets));
  }
  (void)co_await gate.drained();  // nobody cancels it
  co_return sets;
}

Task<void> Router::add_dane(std::vector<Decision>& decisions, Found& found, std::size_t level,
                            const Transport& transport) {
  const NextHop& hop = found.hops[level];
  const auto host_of = [&](std::size_t n) -> const std::string& { return found.levels[level].destinations[n].host; };
  std::set<std::string> hosts, told;
  std::vector<std::size_t> wanted;
  for (std::size_t n = 0; n < decisions.size(); ++n) {
    if (!decisions[n].problem.empty() || decisions[n].policy.level < ipc::TlsLevel::dane) continue;
    wanted.push_back(n);
    hosts.insert(host_of(n));
  }
  if (wanted.empty()) co_return;
  const auto sets = co_await find_tlsa_sets(std::move(hosts), hop, found, transport);
  for (const std::size_t n : wanted) {
    const std::string& host = host_of(n);
    const TlsaSet& set = sets->at(host);
    const auto before = decisions[n].policy.level;
    found.ttl = std::min(found.ttl, set.ttl);
    apply_dane(decisions[n], hop, host, facts_of(found, hop, host), set, transport.tls.insecure_mx());
    if (told.insert(host).second)  // once for each host, however many addresses it has
      tell(transport, dane_failure(hop, host, before, set, decisions[n]));
  }
}

Task<void> Router::add_sts(std::vector<Decision>& decisions, Found& found, std::size_t level,
                           const Transport& transport) {
  const NextHop& hop = found.hops[level];
  std::optional<mta_sts::Applied> applied;
  std::set<std::string> told;  // hosts reported; an empty name: the policy itself
  for (std::size_t n = 0; n < decisions.size(); ++n) {
    if (!sts_may_decide(decisions[n], hop)) continue;
    if (!applied) applied = co_await sts_->find(hop.host);
    found.ttl = std::min(found.ttl, applied->ttl);
    const std::string& host = found.levels[level].destinations[n].host;
    if (const std::string words = apply_sts(decisions[n], host, *applied, transport.sts); !words.empty())
      sts_->tell(words);
    if (auto failure = sts_failure(hop, host, *applied); failure && told.insert(failure->mx_host).second)
      tell(transport, std::move(failure));
  }
}

Task<std::string> Router::add_tls(Found& found, const Transport& transport, mail::RequireTls wish) {
  const TlsPolicies& policies = transport.tls;
  std::string decided;
  std::vector<ipc::route::Level> kept;
  std::vector<NextHop> hops;
  for (std::size_t i = 0; i < found.levels.size(); ++i) {
    auto& destinations = found.levels[i].destinations;
    std::vector<std::string> hosts;
    for (const auto& d : destinations) hosts.push_back(d.host);
    auto look_up = [&policies, &hosts, &hop = found.hops[i]] { return policies.decide(hop, hosts); };
    auto decisions = co_await tables_.ask(look_up);
    if (wish == mail::RequireTls::no)
      for (auto& decision : decisions) give_up_published(decision.policy);
    for (auto& decision : decisions)
      for (auto& published : decision.published) tell(transport, std::move(published));
    co_await add_dane(decisions, found, i, transport);
    // TLS-Required: No ignores what the domain has published (RFC 8689 section 4.2.2).
    if (has_sts(transport) && wish != mail::RequireTls::no) co_await add_sts(decisions, found, i, transport);
    std::vector<ipc::Destination> usable;
    for (std::size_t n = 0; n < decisions.size(); ++n) {
      const Decision& decision = decisions[n];
      if (!decision.problem.empty()) {
        found.status = mail::make_status(mail::Action::deferred, decision.dsn, decision.problem);
        continue;
      }
      if (decided.empty()) decided = std::string(level_name(decision.policy.level)) + ", by " + decision.rule;
      destinations[n].tls = decision.policy;
      usable.push_back(std::move(destinations[n]));
    }
    if (usable.empty()) continue;
    kept.push_back({std::move(usable)});
    hops.push_back(found.hops[i]);
  }
  found.levels = std::move(kept);
  found.hops = std::move(hops);
  co_return decided;
}

Task<void> Router::add_require_tls(Found& found, const RequireTlsPolicies& policies) {
  std::vector<ipc::route::Level> kept;
  std::vector<NextHop> hops;
  for (std::size_t i = 0; i < found.levels.size(); ++i) {
    const NextHop& hop = found.hops[i];
    auto look_up = [&policies, &hop] { return policies.find(hop); };
    const auto rule = co_await tables_.ask(look_up);
    if (!rule) {
      found.status =
          mail::make_status(mail::Action::deferred, "4.7.5",
                            "REQUIRETLS policy of " + hop.text + ": " + printable(rule.error().message(), 400));
      continue;
    }
    std::vector<ipc::Destination> usable;
    for (auto& d : found.levels[i].destinations) {
      if (auto problem = require_tls(d, hop, facts_of(found, hop, d.host), *rule))
        found.status = mail::make_status(mail::Action::failed, "5.7.10", *std::move(problem));
      else
        usable.push_back(std::move(d));
    }
    if (usable.empty()) continue;
    kept.push_back({std::move(usable)});
    hops.push_back(found.hops[i]);
  }
  found.levels = std::move(kept);
  found.hops = std::move(hops);
}

Task<Answer> Router::route(Ask ask) { return route_by(std::move(ask), true); }

Task<Result<resolve::Route>> Router::resolved(const Ask& ask) {
  if (ask.way.empty()) {
    const std::shared_ptr<const resolve::Resolve> by = ask.verification ? probe_resolve_ : resolve_;
    co_return co_await tables_.ask([&] { return by->route(ask.sender, ask.recipient); });
  }
  // No table is consulted: an unreadable table does not matter here.
  auto given = resolve::parse_transport(ask.way);
  resolve::Route route;
  route.transport = std::move(given.transport);
  route.nexthop = given.nexthop.empty() ? mail::domain_part(ask.recipient) : std::move(given.nexthop);
  route.recipient = ask.recipient;
  co_return route;
}

Task<Answer> Router::route_by(Ask ask, bool may_pass) {
  Result<resolve::Route> route = co_await resolved(ask);
  if (!route) co_return deferred("4.3.0", "address resolving failed: " + printable(route.error().message(), 400));
  const Transport* transport = transports_(route->transport);
  if (transport == nullptr) {
    const bool retry = route->transport == "retry";
    if (retry || route->transport == "error") co_return unroutable(status_from_nexthop(route->nexthop, retry));
    co_return deferred("4.3.5", "mail transport \"" + printable(route->transport, 100) + "\" is not in master.cf");
  }
  if (transport->deferred && !ask.flushed) co_return deferred("4.3.2", "deferred transport");
  const bool by_hosts = transport->program != Transport::Program::other;
  const std::shared_ptr<const resolve::Resolve> by = ask.verification ? probe_resolve_ : resolve_;
  Resolved out;
  out.transport = route->transport;
  out.nexthop = route->nexthop;
  out.by_sender = std::move(route->by_sender);
  out.for_domain = ask.way.empty() && !route->routed && by->route_by_domain();
  // A relay host for a domain gets the domain's mail from us in any case, whatever its sender.
  if (ask.forwarded && ask.way.empty() && route->address_class == resolve::AddressClass::other && by_hosts) {
    auto own = co_await tables_.ask([&] { return by->forwarded_sender(ask.sender); });
    if (!own) co_return deferred("4.3.0", "address resolving failed: " + printable(own.error().message(), 400));
    out.sender = *std::move(own);
    if (!out.sender.empty()) out.for_domain = false;
  }
  // Only routing taken out of the local part changes the address, not the case of its domain.
  out.recipient = iequals(route->recipient, ask.recipient) ? std::move(ask.recipient) : std::move(route->recipient);
  if (by_hosts) co_return co_await route_by_hosts(std::move(ask), *route, *transport, std::move(out), may_pass);
  ipc::Destination d;
  d.transport = out.transport;
  d.host = out.nexthop;
  out.levels.push_back({{std::move(d)}});
  out.valid_for = kLongest;
  co_return out;
}

Task<Answer> Router::route_by_hosts(Ask ask, const resolve::Route& route, const Transport& transport, Resolved out,
                                    bool may_pass) {
  Found found = co_await finder_.find(route.nexthop, transport.hosts);
  if (found.levels.empty() && found.status.dsn == kLoop && transport.best_mx && may_pass) {
    const resolve::TransportSpec& to = *transport.best_mx;
    ask.way = to.transport + ":" + (to.nexthop.empty() ? route.nexthop : to.nexthop);
    ask.recipient = std::move(out.recipient);
    Answer passed = co_await route_by(std::move(ask), false);
    if (auto* resolved = std::get_if<Resolved>(&passed)) resolved->for_domain = false;
    co_return passed;
  }
  if (found.levels.empty()) co_return unroutable(std::move(found.status));
  // A notice goes even without REQUIRETLS: it says little, and losing it helps nobody (RFC 8689 section 5).
  const bool require = ask.wish == mail::RequireTls::yes && !ask.sender.empty();
  if (const LoginKeys& keys = transport.logins; !keys.maps.empty()) {
    if (auto added = co_await add_logins(found, keys, std::move(ask.sender)); !added)
      co_return deferred("4.3.0", "look-up of credentials failed: " + printable(added.error().message(), 400));
    if (keys.sender_dependent) out.for_domain = false;
  }
  if (!transport.tls.same_for_all() || has_sts(transport)) {
    out.tls = co_await add_tls(found, transport, ask.wish);
    if (found.levels.empty()) co_return unroutable(std::move(found.status));
  }
  if (require) {
    co_await add_require_tls(found, transport.require_tls);
    if (found.levels.empty()) co_return unroutable(std::move(found.status));
  }
  if (ask.wish != mail::RequireTls::unspecified) out.for_domain = false;
  for (auto& level : found.levels)
    for (auto& d : level.destinations) d.transport = out.transport;
  out.levels = std::move(found.levels);
  out.valid_for = std::clamp(found.ttl, kShortest, kLongest);
  co_return out;
}

}  // namespace pen::rewrite
