#include "lib/suite/sessions/clients.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

namespace pen::sessions {

void Clients::forget(SteadyTime now) {
  while (!oldest_.empty()) {
    const auto found = clients_.find(oldest_.front());
    if (now < found->second.begun + unit_) return;
    found->second.open = false;
    found->second.events = {};
    if (found->second.live == 0) clients_.erase(found);
    oldest_.pop_front();
  }
}

Clients::Client* Clients::find_or_add(const std::string& client, WallTime wall) {
  if (const auto found = clients_.find(client); found != clients_.end()) return &found->second;
  if (clients_.size() >= kMaxClients || client.size() > kMaxName) {
    ++uncounted_;
    return nullptr;
  }
  Client* added = &clients_[client];
  size_.note(static_cast<std::uint32_t>(clients_.size()), {}, wall);
  return added;
}

void Clients::enter(Holder holder, const std::string& client, std::uint32_t sessions, WallTime wall) {
  Client* c = find_or_add(client, wall);
  if (!c) return;
  sessions_[holder][client] += sessions;
  c->live += sessions;
  live_.note(c->live, client, wall);
}

void Clients::drop(Table::iterator client, std::uint32_t sessions) {
  Client& c = client->second;
  c.live -= sessions;
  if (c.live == 0 && !c.open) clients_.erase(client);
}

void Clients::leave(Holder holder, const std::string& client) {
  const auto held = sessions_.find(holder);
  if (held == sessions_.end()) return;
  const auto mine = held->second.find(client);
  if (mine == held->second.end()) return;  // it began when there was no room
  if (--mine->second == 0) held->second.erase(mine);
  drop(clients_.find(client), 1);
}

void Clients::end(Holder holder) {
  const auto held = sessions_.find(holder);
  if (held == sessions_.end()) return;
  for (const auto& [client, sessions] : held->second) drop(clients_.find(client), sessions);
  sessions_.erase(held);
}

Clients::Counted Clients::count(Event event, const std::string& client, bool look, SteadyTime now, WallTime wall) {
  forget(now);
  const auto of = static_cast<std::size_t>(event);
  if (of >= ipc::clients::kEvents) return {};  // a byte of another process may be no event
  if (look) {
    const auto found = clients_.find(client);
    if (found == clients_.end()) return {};
    return {found->second.events[of], found->second.live};
  }
  Client* c = find_or_add(client, wall);
  if (!c) return {};
  if (!std::exchange(c->open, true)) {
    c->begun = now;
    oldest_.push_back(client);
  }
  ++c->events[of];
  rates_[of].note(c->events[of], client, wall);
  return {c->events[of], c->live};
}

std::vector<std::string> Clients::take_statistics() {
  static constexpr std::string_view kNames[] = {"connection", "message", "recipient", "auth", "newtls"};
  // As Postfix prints them: "Nov 22 08:30:00", local time.
  const auto when = [](WallTime at) { return fmt::format("{:%b %e %H:%M:%S}", fmt::localtime(unix_seconds(at))); };
  const auto unit = std::chrono::duration_cast<seconds>(unit_).count();
  std::vector<std::string> lines;
  const auto rate = [&](Event event) {
    const auto of = static_cast<std::size_t>(event);
    Peak peak = std::exchange(rates_[of], {});
    if (peak.value > 1)
      lines.push_back(fmt::format("statistics: max {} rate {}/{}s for ({}) at {}", kNames[of], peak.value, unit,
                                  peak.client, when(peak.at)));
  };
  rate(Event::connection);
  if (const Peak peak = std::exchange(live_, {}); peak.value > 1)
    lines.push_back(
        fmt::format("statistics: max connection count {} for ({}) at {}", peak.value, peak.client, when(peak.at)));
  for (const Event event : {Event::message, Event::recipient, Event::tls, Event::auth}) rate(event);
  if (const Peak peak = std::exchange(size_, {}); peak.value > 1)
    lines.push_back(fmt::format("statistics: max cache size {} at {}", peak.value, when(peak.at)));
  return lines;
}

}  // namespace pen::sessions
