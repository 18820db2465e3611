#include "qmgr/egress.h"

#include <algorithm>

#include "lib/base/date.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/queue/destdb/name.h"
#include "lib/send/egress/choose.h"

namespace pen::qmgr {

namespace {
bool is_v6(const std::string& address) { return address.find(':') != std::string::npos; }

mail::DeliveryStatus wait(std::string dsn, std::string why) {
  return mail::make_status(mail::Action::deferred, std::move(dsn), std::move(why));
}

/// "[mx.example.org]:25" → "mx.example.org"
std::string domain_of(std::string_view nexthop) {
  if (nexthop.starts_with('['))
    nexthop = nexthop.substr(1, nexthop.find(']') - 1);
  else if (std::count(nexthop.begin(), nexthop.end(), ':') == 1)
    nexthop = nexthop.substr(0, nexthop.find(':'));
  return to_lower(nexthop);
}
}  // namespace

Egress::Egress(Options options)
    : setup_(options.setup), options_(std::move(options)), ledger_(setup_->file, setup_->schedule) {
  for (std::uint32_t i = 0; i < setup_->file.sources.size(); ++i) indexes_.emplace(setup_->file.sources[i].name, i);
}

std::optional<std::uint32_t> Egress::index_of(std::string_view name) const {
  const auto at = indexes_.find(std::string(name));
  return at == indexes_.end() ? std::nullopt : std::optional(at->second);
}

std::string Egress::group_of(std::string_view provider, std::string_view nexthop) {
  return provider.empty() ? domain_of(nexthop) : std::string(provider);
}

std::string Egress::group_of(const ipc::route::Resolved& answer) const {
  return group_of(options_.provider_of ? options_.provider_of(answer) : std::string(), answer.nexthop);
}

std::string Egress::suspended_by_hand(std::uint32_t source) const {
  if (by_hand_ == nullptr || by_hand_->empty()) return {};
  const auto at = by_hand_->find(std::string(destdb::kSourceName) + file().sources[source].name);
  if (at == by_hand_->end()) return {};
  return at->second.reason.empty() ? "suspended" : "suspended: " + at->second.reason;
}

Result<const egress::Pool*> Egress::pool_of(std::string_view tenant, std::string_view sender,
                                            const ipc::route::Resolved& answer) const {
  const bool network = std::any_of(answer.levels.begin(), answer.levels.end(), [](const auto& level) {
    return std::any_of(level.destinations.begin(), level.destinations.end(),
                       [](const ipc::Destination& d) { return !d.address.empty(); });
  });
  if (!network) return nullptr;
  if (options_.sends) {
    auto known = sends_.find(answer.transport);
    if (known == sends_.end()) known = sends_.emplace(answer.transport, options_.sends(answer.transport)).first;
    if (!known->second) return nullptr;
  }
  return setup_->pool_for({.transport = answer.transport, .tenant = tenant, .sender = sender});
}

bool Egress::reaches_any(std::uint32_t source, const ipc::route::Resolved& answer) const {
  const egress::Source& s = file().sources[source];
  return std::any_of(answer.levels.begin(), answer.levels.end(), [&](const auto& level) {
    return std::any_of(level.destinations.begin(), level.destinations.end(),
                       [&](const ipc::Destination& d) { return !d.address.empty() && s.reaches(is_v6(d.address)); });
  });
}

void Egress::put(std::uint32_t source, ipc::route::Resolved& answer) const {
  const egress::Source& s = file().sources[source];
  for (auto& level : answer.levels) {
    std::erase_if(level.destinations,
                  [&](const ipc::Destination& d) { return d.address.empty() || !s.reaches(is_v6(d.address)); });
    for (ipc::Destination& d : level.destinations) d.source = s.name;
  }
  std::erase_if(answer.levels, [](const auto& level) { return level.destinations.empty(); });
}

mail::DeliveryStatus Egress::none_left(const egress::Pool& pool, std::string_view group,
                                       const ipc::route::Resolved& answer, WallTime now) const {
  std::string why = "no source of pool " + pool.name + " can send to " + printable(group, 200);
  const char* between = ": ";
  constexpr std::size_t kLongest = 400;
  for (const egress::Member& m : pool.members) {
    if (m.weight == 0) continue;
    std::string its = suspended_by_hand(m.source);
    if (its.empty()) its = ledger_.obstacle(m.source, group, now, false);
    if (its.empty() && !reaches_any(m.source, answer)) its = "no address of the hosts' family";
    if (why.size() + its.size() > kLongest) {
      why += "; …";
      break;
    }
    why += between + file().sources[m.source].name + ": " + its;
    between = "; ";
  }
  return wait("4.3.2", std::move(why));
}

Egress::Assigned Egress::assign(const mail::Envelope& envelope, std::uint32_t ordinal, ipc::route::Resolved& answer,
                                WallTime now) {
  // To a content filter of this host mail goes as ever; behind it comes the choice.
  if (!envelope.filter.empty() && envelope.transport.empty() && !mail::is_probe(envelope.purpose)) return {};
  const auto pool = pool_of(envelope.tenant, envelope.sender, answer);
  if (!pool) return {.waits = wait("4.3.0", pool.error().message())};
  if (*pool == nullptr) return {};
  const std::string group = group_of(answer);
  const std::uint64_t draw = egress::draw_of(envelope.queue_id);
  const std::uint64_t message = draw ^ egress::draw_of(group);
  const std::uint64_t recipient = draw + (std::uint64_t{ordinal} + 1) * 0x9e3779b97f4a7c15U;
  const std::optional<std::uint32_t> before = counted_.find(recipient);
  const auto usable = [&](std::uint32_t s) {
    return suspended_by_hand(s).empty() && ledger_.obstacle(s, group, now, before == s).empty() &&
           reaches_any(s, answer);
  };
  auto order = egress::order_of(file(), **pool, draw);
  // What it was given before stands first.
  if (const auto given = order.size() > 1 ? given_.find(message) : std::nullopt)
    if (const auto at = std::ranges::find(order, *given); at != order.end()) std::rotate(order.begin(), at, at + 1);
  const auto first = std::ranges::find_if(order, usable);
  const std::optional<std::uint32_t> chosen = first == order.end() ? std::nullopt : std::optional(*first);
  if (!chosen) return {.waits = none_left(**pool, group, answer, now)};
  if (order.size() > 1) given_.put(message, *chosen);
  if (ledger_.warms_up(*chosen) && before != chosen) {
    if (!ledger_.reserved(*chosen, group, now)) return {.waits = std::nullopt, .later = true};
    ledger_.take(*chosen, group, now);
    counted_.put(recipient, *chosen);
  }
  put(*chosen, answer);
  return {};
}

std::optional<mail::DeliveryStatus> Egress::show(std::string_view tenant, std::string_view sender,
                                                 ipc::route::Resolved& answer, WallTime now) {
  const auto pool = pool_of(tenant, sender, answer);
  if (!pool) return wait("4.3.0", pool.error().message());
  if (*pool == nullptr) return std::nullopt;
  const std::string group = group_of(answer);
  for (const std::uint32_t s : egress::order_of(file(), **pool, 0)) {
    if (!suspended_by_hand(s).empty() || !ledger_.obstacle(s, group, now, false).empty() || !reaches_any(s, answer))
      continue;
    put(s, answer);
    return std::nullopt;
  }
  return none_left(**pool, group, answer, now);
}

void Egress::accepted(std::string_view source, std::string_view group, std::size_t recipients, WallTime now) {
  const auto s = index_of(source);
  if (!s) return;
  for (; recipients > 0; --recipients) ledger_.accepted(*s, group, now);
}

void Egress::failed(std::string_view source, std::string_view why, WallTime now) {
  const auto s = index_of(source);
  if (!s) return;
  // smtp's words begin with the source, which stands before them here.
  if (const std::string own = "source " + std::string(source) + ": "; why.starts_with(own))
    why.remove_prefix(own.size());
  if (const seconds rest = ledger_.failed(*s, now, why); rest.count() > 0)
    log::warning("source {} rests for {} s: {}", source, rest.count(), printable(why, 300));
}

void Egress::works(std::string_view source) {
  const auto s = index_of(source);
  if (!s || ledger_.failure(*s).count == 0) return;
  log::info("source {} works again", source);
  ledger_.works(*s);
}

bool Egress::block(std::string_view source, std::string_view group, WallTime now, WallTime until,
                   std::string_view why) {
  const auto s = index_of(source);
  if (!s) return false;
  ledger_.block(*s, group, now, until, why);
  return true;
}

bool Egress::forget(std::string_view source) {
  const auto s = index_of(source);
  if (s) ledger_.forget(*s);
  return s.has_value();
}

void Egress::fill(ipc::delivery::OpenConnection& open) const {
  const auto index = index_of(open.destination.source);
  if (!index) return;
  const egress::Source& s = file().sources[*index];
  open.through.source = s.name;
  open.through.helo = s.helo;
  open.through.address = is_v6(open.destination.address) ? s.address6 : s.address;
  open.through.proxy = static_cast<std::uint8_t>(s.proxy.kind);
  open.through.proxy_host = s.proxy.host;
  open.through.proxy_port = s.proxy.port;
  open.through.user = s.proxy.user;
  open.through.password = s.proxy.password;
  // The address of a proxied source is the proxy's to take.
  open.destination.source = s.proxy.kind == egress::Proxy::Kind::none ? open.through.address : std::string();
}

ipc::destinations::SourceSeen Egress::seen(std::uint32_t source, WallTime now) const {
  const egress::Source& s = file().sources[source];
  ipc::destinations::SourceSeen out;
  out.name = s.name;
  out.address = s.address;
  out.address6 = s.address6;
  out.helo = s.helo;
  out.proxy = s.proxy.shown();
  for (const egress::Pool& p : file().pools)
    if (std::any_of(p.members.begin(), p.members.end(), [&](const auto& m) { return m.source == source; }))
      out.pools.push_back(p.name);
  out.suspended = suspended_by_hand(source);
  if (const auto& f = ledger_.failure(source); f.until > now) {
    out.resting = f.why;
    out.rests_until = f.until;
  }
  out.warms_up = ledger_.warms_up(source);
  if (const WallTime begins{std::chrono::days(s.warmup_from)}; s.warmup_from > 0 && now < begins)
    out.begins = utc_day(begins);
  return out;
}

std::vector<ipc::destinations::SourceGroup> Egress::groups(std::uint32_t source, WallTime now) const {
  std::vector<ipc::destinations::SourceGroup> out;
  const bool warm = ledger_.warms_up(source);
  for (const egress::Entry& e : ledger_.entries_of(source, now)) {
    auto& g = out.emplace_back();
    g.source = e.source;
    g.group = e.group;
    if (warm) {
      g.stage = e.stage + 1;
      g.limit = ledger_.limit(e.stage);
      g.taken = e.taken;
      g.accepted = e.accepted;
    }
    g.blocked = e.blocked_until > now && e.why.empty() ? "blocked" : e.why;
    g.blocked_until = e.blocked_until;
  }
  return out;
}

}  // namespace pen::qmgr
