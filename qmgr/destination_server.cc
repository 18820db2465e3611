#include "qmgr/destination_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ranges>
#include <unordered_set>

#include "lib/base/async/sync.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/queue/destdb/name.h"
#include "lib/suite/events/emitter.h"
#include "qmgr/egress.h"

namespace pen::qmgr {

using namespace ipc::destinations;

namespace {
constexpr std::size_t kMaxReason = 500;
constexpr std::size_t kMaxOrderer = 200;
constexpr std::size_t kMostTroubled = 1000;  // of one answer: they are sent at once
constexpr auto kRouteWait = seconds(60);     // for trivial-rewrite
constexpr auto kCountsWait = seconds(5);     // for anvil

Limit to_limit(const LimitState& s) {
  Limit l;
  l.group = s.group;
  l.source = s.source;
  l.domain = s.domain;
  l.name = s.name;
  Rates holds = s.rate;
  for (const QuotaState& q : s.quotas) holds.quotas.push_back(q.quota);
  l.rate = to_string(holds);
  l.set = to_string(s.set);
  l.ordered = to_string(shaping::ordered(s.learned));
  l.connections = s.connections;
  l.waiting = s.waiting;
  l.last_minute = s.last_minute;
  l.held = s.held;
  l.reason = s.learned.reason;
  l.rule = s.learned.rule;
  l.complaints = s.learned.complaints;
  l.complained = s.learned.complained;
  l.thousandths = s.rate.thousandths;
  return l;
}

/// Adds it, with its quotas.
void add(const LimitState& s, std::vector<Limit>& limits, std::vector<ipc::destinations::Quota>& quotas) {
  const auto place = static_cast<std::uint32_t>(limits.size());
  limits.push_back(to_limit(s));
  for (const QuotaState& q : s.quotas) quotas.push_back({place, to_string(q.quota), q.most, q.used, q.opens});
}

Entry to_entry(std::uint64_t request, const DestinationState& s) {
  static_assert(static_cast<int>(DestinationClass::suspended) == static_cast<int>(Class::suspended));
  Entry e;
  e.request = request;
  e.key = s.key;
  e.shown = s.facts.shown;
  e.transport = s.address.transport;
  e.classification = static_cast<Class>(s.classification);
  e.suspended = s.suspended;
  e.connections = s.connections;
  e.limit = s.limit;
  e.in_hand = s.in_hand;
  e.waiting = s.waiting;
  e.facts = encode(s.facts);
  e.paused = s.paused;
  e.source = s.address.source;
  for (const LimitState& l : s.limits) add(l, e.limits, e.quotas);
  return e;
}

bool fits(const std::string& name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
bool fits(const std::string& name, const destdb::Facts& facts) {
  const auto shown = destdb::parse_shown(facts.shown);
  return fits(name, destdb::names_of(shown.host, shown.address, shown.port));
}
}  // namespace

DestinationServer::DestinationServer(async::Loop& loop, Manager& manager, destdb::DestDb& destinations,
                                     SharedDestinations* shared, Limits limits, SessionClasses session_classes,
                                     Write write)
    : loop_(loop),
      manager_(manager),
      destinations_(destinations),
      shared_(shared),
      limits_(std::move(limits)),
      session_classes_(std::move(session_classes)),
      write_(std::move(write)) {}

Backend DestinationServer::backend(std::uint64_t request) const {
  Backend b;
  if (shared_ != nullptr) b = shared_->backend();
  if (shared_ == nullptr) b.name = "lmdb";
  b.request = request;
  return b;
}

Entry DestinationServer::entry(std::uint64_t request, const DestinationState& s) const {
  Entry e = to_entry(request, s);
  if (s.session_class) e.session_class = session_classes_.classes->list()[*s.session_class].mask;
  e.in_line = s.in_line;
  if (shared_ != nullptr) shared_->describe(e);
  return e;
}

async::Task<void> DestinationServer::serve(ipc::Opening opening, Guests::Guest* guest, bool commands) {
  const unsigned uid = opening.peer.uid;
  Channel channel(std::move(opening));
  for (;;) {
    auto received = co_await channel.receive({.deadline = loop_.now() + kToolIdle});
    if (!received) {
      if (!received.error().is(async::WaitError::closed) && !received.error().is(async::WaitError::timed_out))
        log::warning("destinations: {}", received.error().message());
      co_return;
    }
    if (auto* find = std::get_if<Find>(&received->message)) {
      co_await handle(channel, std::move(*find));
    } else if (auto* order = std::get_if<Order>(&received->message)) {
      co_await handle(channel, std::move(*order), commands, uid);
    } else if (auto* explain = std::get_if<Explain>(&received->message)) {
      if (guest != nullptr) co_await guest->begin();
      co_await handle(channel, std::move(*explain));
    } else if (auto* sources = std::get_if<FindSources>(&received->message)) {
      if (guest != nullptr) co_await guest->begin();
      co_await handle(channel, std::move(*sources));
    }
    if (guest != nullptr) guest->end();
    if (!co_await channel.flush({.deadline = loop_.now() + seconds(300)})) co_return;
  }
}

async::Task<void> DestinationServer::handle(Channel& channel, Find m) {
  if (m.troubled > 0) {
    show_troubled(channel, m);
    co_return;
  }
  // Taken down before the first wait. What is in memory is bounded: by the active set and the routes kept.
  std::vector<Entry> found;
  std::unordered_set<std::string> wanted;
  if (!m.name.empty()) {
    for (auto& key : manager_.scheduler().destinations_of(m.name)) wanted.insert(std::move(key));
  }
  manager_.event()->scheduler.each_destination([&](const DestinationState& s) {
    const bool its_provider = std::ranges::any_of(s.limits, [&](const auto& l) { return l.group == m.name; });
    if (!m.name.empty() && !wanted.contains(s.key) && !its_provider && !fits(m.name, s.facts)) return;
    found.push_back(entry(m.request, s));
  });
  std::vector<LimitSeen> limits;
  if (m.limits)
    manager_.event()->scheduler.each_set_limit([&](const LimitState& s) {
      if (!m.name.empty() && m.name != s.name) return;
      std::vector<Limit> one;
      LimitSeen seen{.request = m.request, .limit = {}, .quotas = {}};
      add(s, one, seen.quotas);
      seen.limit = std::move(one.front());
      limits.push_back(std::move(seen));
    });
  (void)channel.send(backend(m.request));
  std::uint64_t count = 0;
  for (const auto& [name, s] : destinations_.suspensions()) {
    if (!m.name.empty() && m.name != name) continue;
    ++count;
    (void)channel.send(Suspended{m.request, s.name, s.reason, s.since});
  }
  for (const Entry& e : found) {
    ++count;
    (void)channel.send(e);
    if (channel.congested() && !co_await channel.flush({.deadline = loop_.now() + seconds(300)})) co_return;
  }
  for (const LimitSeen& l : limits) {
    ++count;
    (void)channel.send(l);
    if (channel.congested() && !co_await channel.flush({.deadline = loop_.now() + seconds(300)})) co_return;
  }
  (void)channel.send(Done{m.request, Outcome::ok, count, {}});
}

void DestinationServer::show_troubled(Channel& channel, const Find& m) {
  const std::size_t most = std::min<std::size_t>(m.troubled, kMostTroubled);
  const auto found = manager_.event()->scheduler.troubled(most);
  const auto& suspensions = destinations_.suspensions();
  (void)channel.send(backend(m.request));
  for (const auto& [name, s] : suspensions | std::views::take(most))
    (void)channel.send(Suspended{m.request, s.name, s.reason, s.since});
  for (const DestinationState& s : found.worst) (void)channel.send(entry(m.request, s));
  (void)channel.send(Done{m.request, Outcome::ok, found.all + suspensions.size(), {}});
}

namespace {
void tell_order(const Order& m, std::string_view name, unsigned uid) {
  if (!events::wanted()) return;
  static constexpr std::string_view kActions[] = {"suspended", "resumed", "forgotten", "rate"};
  using enum events::Field;
  events::tell(
      events::Event(events::Type::order, events::now())
          .text(action, kActions[static_cast<std::size_t>(m.verb)])
          .text(destination, name)
          .text(reason, m.verb == Verb::rate ? m.rate.empty() ? "none" : m.rate : printable(trim(m.reason), kMaxReason))
          .text(by, m.by.empty() ? fmt::format("uid {}", uid) : printable(m.by, kMaxOrderer)));
}

/// Of "source:NAME" the name; nullopt: it is a destination.
std::optional<std::string> source_of(const std::string& name) {
  if (!name.starts_with(destdb::kSourceName)) return std::nullopt;
  return name.substr(destdb::kSourceName.size());
}
}  // namespace

Done DestinationServer::refusal(const Order& m, const std::optional<std::string>& name, bool trusted) const {
  Done done{m.request, Outcome::failed, 0, {}};
  if (!trusted) {
    done.outcome = Outcome::denied;
    done.text = "only root and mail_owner may";
  } else if (!name) {
    done.text = "not a name of a destination";
  } else if (m.verb > Verb::rate) {
    done.text = "no such order";
  } else if (const auto source = source_of(*name);
             source && m.verb != Verb::resume &&
             (manager_.egress() == nullptr || manager_.egress()->file().source(*source) == nullptr)) {
    done.outcome = Outcome::not_found;
  } else {
    done.outcome = Outcome::ok;
  }
  return done;
}

std::uint64_t DestinationServer::obey(const Order& m, const std::string& name, const Rates& rates) {
  const auto source = source_of(name);
  const char* const kind = !source ? "destination " : "";
  switch (m.verb) {
    case Verb::suspend: {
      const std::string reason = printable(trim(m.reason), kMaxReason);
      destinations_.suspend({name, reason, loop_.clock().wall_now()});
      log::info("{}{} suspended{}{}", kind, name, reason.empty() ? "" : ": ", reason);
      return 1;
    }
    case Verb::resume:
      if (!destinations_.resume(name)) return 0;
      log::info("{}{} resumed", kind, name);
      return 1;
    case Verb::forget: {
      if (source) {
        (void)manager_.egress()->forget(*source);
        log::info("what was known of {} is forgotten", name);
        return 1;
      }
      const auto keys = destinations_.keys_if([&](const destdb::Facts& f) { return fits(name, f); });
      for (const std::string& key : keys) {
        destinations_.forget(key);
        manager_.event()->scheduler.forgotten(key);
        if (shared_ != nullptr) shared_->forgotten(key);
      }
      return keys.size() + manager_.event()->scheduler.forget_limits(name);
    }
    case Verb::rate:
      if (!manager_.event()->scheduler.order_rate(name, rates)) return 0;
      log::info("destination {}: {}", name,
                rates.limits() ? "at most " + to_string(rates) + " by order" : "no rate by order any more");
      return 1;
  }
  return 0;
}

async::Task<void> DestinationServer::handle(Channel& channel, Order m, bool trusted, unsigned uid) {
  const auto name = destdb::destination_name(m.name);
  Done done = refusal(m, name, trusted);
  const auto rates = m.verb != Verb::rate || m.rate.empty() ? std::expected<Rates, std::string>() : parse_rates(m.rate);
  if (done.outcome == Outcome::ok && !rates) {
    done.outcome = Outcome::failed;
    done.text = "\"" + printable(m.rate, 80) + "\" " + rates.error();
  }
  if (done.outcome != Outcome::ok) {
    (void)channel.send(done);
    co_return;
  }
  done.count = obey(m, *name, *rates);
  if (done.count == 0) {
    done.outcome = Outcome::not_found;
  } else {
    tell_order(m, *name, uid);
    const auto source = source_of(*name);
    if (source && m.verb == Verb::suspend)
      manager_.event()->scheduler.reroute_source(*source);
    else if (!source && (m.verb == Verb::suspend || m.verb == Verb::resume))
      manager_.event()->scheduler.suspensions_changed();
    if (auto written = co_await write_(); !written) {
      done.outcome = Outcome::failed;
      done.text = "it acts now, but could not be written: " + written.error().message();
    }
  }
  (void)channel.send(done);
}

async::Task<void> DestinationServer::handle(Channel& channel, FindSources m) {
  std::uint64_t count = 0;
  const Egress* egress = manager_.egress();
  const std::size_t all = egress == nullptr ? 0 : egress->file().sources.size();
  for (std::uint32_t i = 0; i < all; ++i) {
    const WallTime now = loop_.clock().wall_now();
    SourceSeen seen = egress->seen(i, now);
    if (!m.name.empty() && m.name != seen.name) continue;
    seen.request = m.request;
    seen.connections = manager_.scheduler().connections_of_source(seen.name);
    ++count;
    (void)channel.send(seen);
    for (SourceGroup& group : egress->groups(i, now)) {  // bounded by egress::kMaxEntries, each a hundred bytes
      group.request = m.request;
      (void)channel.send(group);
      if (channel.congested() && !co_await channel.flush({.deadline = loop_.now() + seconds(300)})) co_return;
    }
  }
  (void)channel.send(Done{m.request, count > 0 || m.name.empty() ? Outcome::ok : Outcome::not_found, count, {}});
}

async::Task<std::shared_ptr<const DestinationServer::Counts>> DestinationServer::ask_counts() {
  const async::Until until{.deadline = loop_.now() + kCountsWait};
  if (auto asked = asked_.lock(); asked && !asked->answer) {
    (void)co_await asked->answered.wait(until);
    co_return asked;
  }
  const auto asked = std::make_shared<Counts>(loop_);
  asked_ = asked;
  asked->answer = co_await sessions::ask_status(loop_, session_classes_.anvil, until);
  asked->answered.set();
  co_return asked;
}

async::Task<std::vector<ClassSeen>> DestinationServer::classes_of(const Explanation& e) {
  std::vector<ClassSeen> found;
  for (const auto& level : e.levels) {
    for (const DestinationState& s : level) {
      if (!s.session_class) continue;
      const auto& known = session_classes_.classes->list()[*s.session_class];
      if (std::ranges::any_of(found, [&](const auto& c) { return c.counts.mask == known.mask; })) continue;
      ClassSeen& seen = found.emplace_back();
      seen.counts.mask = known.mask;
      seen.counts.total = known.total;
      seen.counts.refuse = known.refuse;
      seen.in_line = s.class_line;
    }
  }
  if (found.empty()) co_return found;
  const auto asked = co_await ask_counts();
  const auto& status = asked->answer;
  for (ClassSeen& seen : found) {
    if (!status || !*status) {
      seen.unknown = "anvil cannot be asked: " + (status ? status->error().message() : "no answer in time");
      continue;
    }
    const auto& classes = (*status)->classes;
    const auto at = std::ranges::find(classes, seen.counts.mask, &ipc::sessions::ClassStatus::mask);
    if (at != classes.end())
      seen.counts = *at;
    else
      seen.unknown = "anvil has other session_classes";
  }
  co_return found;
}

namespace {
void explain_route(Explained& e, const ipc::route::Resolved& route, const Explanation& found,
                   const TransportLimits& limits) {
  e.recipient = route.recipient;
  e.transport = route.transport;
  e.nexthop = route.nexthop;
  e.valid_for = route.valid_for;
  static_assert(static_cast<int>(Choice::nothing) == static_cast<int>(Rule::nothing));
  e.rule = static_cast<Rule>(found.choice);
  e.suspended = found.suspended;
  e.level = static_cast<std::uint32_t>(found.level);
  e.pooled = found.pooled;
  e.free_workers = found.free_workers;
  e.transport_up = found.transport_up;
  e.workers = limits.workers;
  e.concurrency = limits.destination_concurrency;
  e.recipients = limits.destination_recipients;
  e.rate_delay = limits.rate_delay;
  e.tls = route.tls;
  e.by_sender = route.by_sender;
  for (const LimitState& l : found.limits) add(l, e.limits, e.quotas);
}
}  // namespace

async::Task<void> DestinationServer::handle(Channel& channel, Explain m) {
  struct Looked {
    explicit Looked(async::Loop& loop) : event(loop) {}
    async::Event event;
    std::optional<std::variant<ipc::route::Resolved, ipc::route::Unroutable>> answer;
  };
  auto looked = std::make_shared<Looked>(loop_);
  const std::uint64_t request = manager_.event()->routes.look_up(
      m.recipient, m.sender,
      [looked](ipc::route::Routed* routed) {
        if (routed != nullptr) looked->answer = std::move(routed->answer);
        looked->event.set();
      },
      m.tenant);
  (void)co_await looked->event.wait({.deadline = loop_.now() + kRouteWait});
  manager_.event()->routes.forget_look_up(request);
  if (!looked->answer) {
    (void)channel.send(Done{m.request, Outcome::failed, 0, "trivial-rewrite does not answer"});
    co_return;
  }
  Explained e;
  e.request = m.request;
  e.recipient = m.recipient;
  if (const auto* no = std::get_if<ipc::route::Unroutable>(&*looked->answer)) {
    e.rule = Rule::unroutable;
    e.status = no->status.dsn;
    e.text = no->status.text;
    (void)channel.send(e);
    (void)channel.send(Done{m.request, Outcome::ok, 0, {}});
    co_return;
  }
  auto& route = std::get<ipc::route::Resolved>(*looked->answer);
  if (route.recipient.empty()) route.recipient = m.recipient;
  const std::string domain =
      m.sender.contains('@') ? to_lower(m.sender.substr(m.sender.rfind('@') + 1)) : std::string();
  const Explanation found =
      manager_.event()->scheduler.explain(route, {.sender_domain = domain, .tenant = m.tenant, .signer = m.signer});
  explain_route(e, route, found, limits_(route.transport));
  e.classes = co_await classes_of(found);
  (void)channel.send(backend(m.request));
  (void)channel.send(e);
  std::uint64_t count = 0;
  for (std::size_t level = 0; level < found.levels.size(); ++level) {
    for (const auto& s : found.levels[level]) {
      Entry at = entry(m.request, s);
      at.level = static_cast<std::uint32_t>(level);
      at.chosen = fits(s.key, found.chosen);
      ++count;
      (void)channel.send(at);
    }
  }
  (void)channel.send(Done{m.request, Outcome::ok, count, {}});
}

}  // namespace pen::qmgr
