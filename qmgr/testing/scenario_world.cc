#include "qmgr/testing/scenario_world.h"

#include <sstream>

namespace pen::qmgr::scenario {

void World::add_to_class(std::uint32_t number, std::size_t most, const std::vector<std::string>& members) {
  session_limits_[number].most = most;
  for (const std::string& host : members) class_of_[host] = number;
}

Scheduler& World::core() {
  if (core_) return *core_;
  random_.emplace(seed);
  if (!rule.empty()) {
    options.deferral_rule = [this](std::string_view name, std::string_view address) {
      return rule.contains(name) || rule.contains(address) ? "defer_destinations" : "";
    };
  }
  if (!class_of_.empty()) {
    options.session_class = [this](std::string_view host, std::string_view) -> std::optional<Options::SessionClass> {
      const auto found = class_of_.find(host);
      if (found == class_of_.end()) return std::nullopt;
      return Options::SessionClass{found->second, "class " + std::to_string(found->second)};
    };
  }
  core_.emplace(options, [this](std::string_view) { return limits; }, table, *random_);
  core_->set_time(now_, wall());
  return *core_;
}

void World::arrive(const std::string& name, const std::vector<std::string>& recipients) {
  Message& m = messages_[name];
  m.number = messages_.size();
  by_number_[m.number] = name;
  m.arrived = now_;
  m.recipients = recipients;
  Ordinals all;
  for (std::uint32_t i = 0; i < recipients.size(); ++i) all.push_back(i);
  core().admit(m.number, all, 0, tenant, {}, urgency);
}

void World::one_domain(ConnectionNumber c, std::size_t count) {
  const HandJob j = take_job(c);
  message(j.message).delivered += j.ordinals.size() - count;
  core().one_domain_only(j.job, {j.ordinals.end() - static_cast<std::ptrdiff_t>(count), j.ordinals.end()},
                         mail::make_status(mail::Action::deferred, "4.3.0", "multiple domains"));
  core().job_done(j.job, milliseconds(1), JobEnd::served);
}

void World::rest(ConnectionNumber c, std::size_t count) {
  const HandJob j = take_job(c);
  message(j.message).delivered += j.ordinals.size() - count;
  core().rest_at_once(j.job, {j.ordinals.end() - static_cast<std::ptrdiff_t>(count), j.ordinals.end()},
                      mail::make_status(mail::Action::deferred, "4.5.3", "too many recipients"));
  core().job_done(j.job, milliseconds(1), JobEnd::served);
}

void World::close(ConnectionNumber c, bool was_opened, ipc::delivery::Trouble trouble, std::string dsn,
                  std::string says, bool unstarted) {
  std::vector<JobNumber> rest;
  if (unstarted) {
    for (const HandJob& j : live_[c].in_hand) rest.push_back(j.job);
  }
  live_.erase(c);
  core().closed(c, was_opened, trouble, {mail::Action::deferred, std::move(dsn), std::move(says), {}, {}}, rest);
  release(c);
}

const HandJob& World::in_hand(ConnectionNumber c) {
  BOOST_REQUIRE_MESSAGE(live_.contains(c) && !live_[c].in_hand.empty(), "no job in hand");
  return live_[c].in_hand.front();
}

HandJob World::take_job(ConnectionNumber c) {
  HandJob j = in_hand(c);
  live_.at(c).in_hand.pop_front();
  live_.at(c).since.pop_front();
  return j;
}

void World::expect_nothing() {
  BOOST_CHECK_MESSAGE(pending_.empty(), "more happened: " << pending());
  pending_.clear();
}

void World::finish(ConnectionNumber c, microseconds service) {
  const HandJob j = take_job(c);
  Message& m = message(j.message);
  m.delivered += j.ordinals.size();
  end_if_done(m);
  core().job_done(j.job, service, JobEnd::served);
}

void World::put_off(ConnectionNumber c, std::size_t count, JobEnd end) {
  const HandJob j = take_job(c);
  if (count == 0) count = j.ordinals.size();
  const Ordinals back(j.ordinals.begin(), j.ordinals.begin() + static_cast<std::ptrdiff_t>(count));
  message(j.message).delivered += j.ordinals.size() - count;
  core().try_next_host(j.job, back,
                       mail::make_status(mail::Action::deferred, "4.3.0", live_.at(c).host + " says not now"));
  core().job_done(j.job, milliseconds(1), count < j.ordinals.size() ? JobEnd::served : end);
}

bool World::lease(const OpenConnection& a) {
  if (!a.session_class) return true;
  SessionLimit& limit = session_limits_.at(*a.session_class);
  if (limit.count >= limit.most) {
    limit.refused = true;
    core().session_refused(a.connection);
    return false;
  }
  ++limit.count;
  leased_[a.connection] = *a.session_class;
  core().session_granted(a.connection);
  return true;
}

void World::act(OpenConnection& a) {
  if (!lease(a)) return;
  live_[a.connection].host = a.destination.host;
  const Host& h = hosts[a.destination.host];
  if (!h.automatic) {
    pending_.emplace_back(a);
    return;
  }
  const auto c = a.connection;
  if (h.refuses) {
    at(h.connect, [this, c] { close(c, false, ipc::delivery::Trouble::refused, "4.4.1", "refused", false); });
    return;
  }
  at(h.connect, [this, c] {
    const Host& host = hosts[live_[c].host];
    ipc::delivery::Features f;
    f.window = host.window;
    f.pipelining = f.chunking = host.window > 1;
    f.round_trip = host.trip;
    f.connect_time = host.connect;
    core().opened(c, f);
  });
}

void World::serve(ConnectionNumber c) {
  Live& l = live_.at(c);
  if (l.replying || l.in_hand.empty()) return;
  l.replying = true;
  const Host& host = hosts[l.host];
  const auto arrives = std::max(now_, l.since.front() + host.trip) - now_;
  at(std::chrono::ceil<milliseconds>(arrives) + host.reply, [this, c] { answer(c); });
}

void World::answer(ConnectionNumber c) {
  const auto it = live_.find(c);
  if (it == live_.end()) return;
  it->second.replying = false;
  Host& host = hosts[it->second.host];
  ++host.served;
  finish(c, host.trip.count() == 0 ? host.reply
                                   : std::chrono::duration_cast<microseconds>(now_ - it->second.since.front()));
  collect();
  if (!live_.contains(c)) return;  // closed by us
  if (host.closes_after != 0 && ++live_[c].served >= host.closes_after)
    close(c, true, ipc::delivery::Trouble::peer_421, "4.4.2", "closed", true);
  else
    serve(c);
}

WallTime World::wall() const {
  return WallTime(std::chrono::duration_cast<microseconds>(now_.time_since_epoch()) + seconds(1'800'000'000));
}

ipc::Destination World::destination(const std::string& host) const {
  ipc::Destination d;
  d.tls.level = tls;
  d.transport = "smtp";
  d.host = host;
  d.address = "addr-" + host;
  d.port = 25;
  return d;
}

ipc::route::Resolved World::resolved(const std::string& domain, std::uint32_t ordinal) const {
  ipc::route::Resolved r;
  r.transport = "smtp";
  r.nexthop = domain;
  r.recipient = "u" + std::to_string(ordinal) + "@" + domain;
  r.valid_for = valid;
  auto it = routes.find(domain);
  const std::vector<std::vector<std::string>> levels =
      it == routes.end() ? std::vector<std::vector<std::string>>{{"mx." + domain}} : it->second;
  for (const auto& level : levels) {
    auto& out = r.levels.emplace_back();
    for (const auto& h : level) out.destinations.push_back(destination(h));
  }
  return r;
}

Message& World::message(const std::string& name) {
  BOOST_REQUIRE_MESSAGE(messages_.contains(name), "no message " << name);
  return messages_[name];
}

ConnectionNumber World::connection(const std::string& name) {
  BOOST_REQUIRE_MESSAGE(names_.contains(name), "no connection " << name);
  return names_[name];
}

void World::collect() {
  for (;;) {
    auto actions = core().take_actions();
    if (actions.empty()) break;
    for (auto& a : actions) std::visit([this](auto& x) { act(x); }, a);
  }
  const std::string waits = core().needless_wait();
  BOOST_REQUIRE_MESSAGE(waits.empty(), waits);
}

void World::arrive_each(const std::string& name, const std::string& domain, std::uint32_t count, milliseconds every) {
  for (std::uint32_t i = 0; i < count; ++i)
    at(i * every, [this, one = name + std::to_string(i), domain] { arrive(one, {domain}); });
}

void World::act(RouteRecipient& a) {
  if (manual_routing) {
    pending_.emplace_back(a);
    return;
  }
  core().routed(a.message, a.ordinal, resolved(message(a.message).recipients.at(a.ordinal), a.ordinal));
}

void World::act(HandJob& a) {
  Live& l = live_.at(a.connection);
  const Host& h = hosts[l.host];
  l.in_hand.push_back(a);
  l.since.push_back(now_);
  if (!h.automatic) {
    pending_.emplace_back(a);
    return;
  }
  serve(a.connection);
}

void World::release(ConnectionNumber c) {
  const auto at = leased_.find(c);
  if (at == leased_.end()) return;
  const std::uint32_t number = at->second;
  leased_.erase(at);
  leave(number, 1);
}

void World::leave(std::uint32_t number, std::size_t count) {
  SessionLimit& limit = session_limits_.at(number);
  BOOST_REQUIRE(limit.count >= count);
  limit.count -= count;
  if (limit.count < limit.most && std::exchange(limit.refused, false)) core().session_room(number);
}

void World::act(CloseConnection& a) {
  release(a.connection);
  if (!hosts[live_[a.connection].host].automatic) pending_.emplace_back(a);
}

void World::act(DeferRecipients& a) {
  Message& m = message(a.message);
  m.deferred += a.ordinals.size();
  end_if_done(m);
  const auto automatic = [](const auto& h) { return h.second.automatic; };
  if (std::any_of(hosts.begin(), hosts.end(), automatic)) return;
  pending_.emplace_back(a);
}

void World::end_if_done(Message& m) const {
  if (m.delivered + m.deferred == m.recipients.size()) m.ended = now_;
}

void World::at(milliseconds later, std::function<void()> f) {
  timed_.push_back({now_ + later, ++order_, std::move(f)});
  std::push_heap(timed_.begin(), timed_.end(), std::greater<>());
}

void World::advance(milliseconds by) {
  const SteadyTime until = now_ + by;
  for (;;) {
    collect();
    SteadyTime next = core().next_wake();
    if (!timed_.empty()) next = std::min(next, timed_.front().at);
    if (next > until) break;
    now_ = std::max(now_, next);
    core().set_time(now_, wall());
    if (!timed_.empty() && timed_.front().at <= now_) {
      std::pop_heap(timed_.begin(), timed_.end(), std::greater<>());
      auto f = std::move(timed_.back().act);
      timed_.pop_back();
      f();
    } else {
      core().tick();
    }
  }
  now_ = until;
  core().set_time(now_, wall());
  core().tick();
  collect();
}

std::string World::pending() const {
  std::string out;
  for (auto& a : pending_) {
    if (const auto* o = std::get_if<OpenConnection>(&a)) out += "[open " + o->destination.host + "]";
    if (const auto* h = std::get_if<HandJob>(&a))
      out += "[hand #" + std::to_string(h->connection) + " " + by_number_.at(h->message) + " " +
             std::to_string(h->ordinals.size()) + "]";
    if (const auto* c = std::get_if<CloseConnection>(&a)) out += "[close #" + std::to_string(c->connection) + "]";
    if (const auto* d = std::get_if<DeferRecipients>(&a))
      out +=
          "[defer " + by_number_.at(d->message) + " " + std::to_string(d->ordinals.size()) + " " + d->status.text + "]";
    if (const auto* r = std::get_if<RouteRecipient>(&a))
      out += "[route " + by_number_.at(r->message) + " " + std::to_string(r->ordinal) + "]";
  }
  for (auto& [n, c] : names_) out += " " + n + "=#" + std::to_string(c);
  return out;
}

}  // namespace pen::qmgr::scenario
