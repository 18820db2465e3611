#include "lib/queue/destdb/sharing.h"

#include <algorithm>

#include "lib/base/check.h"

namespace pen::destdb {

namespace {
std::uint8_t bit(Group g) { return static_cast<std::uint8_t>(1U << static_cast<unsigned>(g)); }
std::uint32_t count(std::size_t n) { return static_cast<std::uint32_t>(n); }
}  // namespace

ClusterSharing::~ClusterSharing() = default;

ClusterSharing::Entry* ClusterSharing::find(std::string_view key) {
  const auto it = entries_.find(std::string(key));
  return it == entries_.end() ? nullptr : it->second.get();
}

ClusterSharing::Entry* ClusterSharing::entry(std::string_view key, const Facts* known) {
  if (Entry* e = find(key)) return e;
  if (entries_.size() >= options_.entries) {
    if (unused_.empty()) return nullptr;
    drop(*unused_.front());
  }
  auto& slot = entries_[std::string(key)];
  slot = std::make_unique<Entry>();
  slot->key = key;
  if (known != nullptr) {
    slot->facts = *known;
    slot->changed.fill(known->used);
  }
  return slot.get();
}

void ClusterSharing::drop(Entry& e) {
  if (e.wake != kNever) wakes_.erase({e.wake, &e});
  if (e.is_unused) unused_.erase(e.unused);
  const std::string key = e.key;
  entries_.erase(key);
}

void ClusterSharing::queue(Entry& e) {
  if (e.queued || !up_) return;
  e.queued = true;
  queue_.push_back(&e);
}

void ClusterSharing::settle(Entry& e) {
  SteadyTime wake = std::min({e.renew, e.probe, e.doubt});
  if (up_ && !e.queued && e.telling == 0) wake = std::min(wake, e.tell);
  for (const Want& w : e.wants) wake = std::min(wake, w.until);
  if (wake != e.wake) {
    if (e.wake != kNever) wakes_.erase({e.wake, &e});
    e.wake = wake;
    if (wake != kNever) wakes_.insert({wake, &e});
  }
  const bool unused = !e.busy();
  if (unused == e.is_unused) return;
  e.is_unused = unused;
  if (unused) {
    e.unused = unused_.insert(unused_.end(), &e);
  } else {
    unused_.erase(e.unused);
  }
}

void ClusterSharing::hold(Entry& e, Connection connection) {
  if (e.held.empty()) {
    e.held_since = now_;
    e.opened = false;
  }
  e.held.insert(connection);
  holders_[connection] = &e;
  effects_.emplace_back(Open{connection});
}

void ClusterSharing::grant_all(Entry& e) {
  for (const Want& w : std::exchange(e.wants, {})) {
    waiting_.erase(w.connection);
    hold(e, w.connection);
  }
}

void ClusterSharing::show(Entry& e, std::uint32_t connections, bool again) {
  if (e.shown == connections && !again) return;
  e.shown = connections;
  effects_.emplace_back(Elsewhere{e.key, connections});
}

std::uint32_t ClusterSharing::limit_of(const Entry& e) const {
  if (e.facts.failures > 0 && !e.opened) return std::min(e.limit, 1U);  // one connection tries whether it works again
  if (e.facts.tolerated_connections == 0) return e.limit;
  return std::min(e.limit, e.facts.tolerated_connections + (wall_ >= e.facts.tolerated_until ? 1U : 0U));
}

void ClusterSharing::want(Connection connection, std::string_view key, std::uint32_t limit, const Facts* known) {
  Entry* e = entry(key, known);
  if (e == nullptr) {  // no room for another entry: own knowledge decides
    effects_.emplace_back(Open{connection});
    return;
  }
  e->limit = limit;
  if (!up_ || slow_) {
    hold(*e, connection);
    e->ask = true;
    if (up_) queue(*e);
  } else {
    e->wants.push_back({connection, now_ + options_.patience, false});
    waiting_[connection] = e;
    e->ask = true;
    queue(*e);
  }
  settle(*e);
}

bool ClusterSharing::cancel(Connection connection) {
  const auto it = waiting_.find(connection);
  if (it == waiting_.end()) return false;
  Entry& e = *it->second;
  waiting_.erase(it);
  std::erase_if(e.wants, [&](const Want& w) { return w.connection == connection; });
  settle(e);
  return true;
}

void ClusterSharing::gone(Connection connection) {
  if (cancel(connection)) return;
  const auto it = holders_.find(connection);
  if (it == holders_.end()) return;
  Entry& e = *it->second;
  holders_.erase(it);
  e.held.erase(connection);
  if (e.held.empty()) {
    e.opened = false;
    e.renew = kNever;
  }
  e.ask = true;
  if (e.probe != kNever) e.probe = now_;  // a connection refused before may now get this one's place
  queue(e);
  settle(e);
}

void ClusterSharing::changed(std::string_view key, const Facts& facts, bool own_trouble) {
  Entry* e = find(key);
  if (e == nullptr) return;
  if (!e->held.empty() && facts.failures == 0 && facts.last_connect > e->facts.last_connect) e->opened = true;
  bool urgent = false, any = false;
  for (const Group g : kAllGroups) {
    if (same_group(g, e->facts, facts) || (g == Group::failure && own_trouble)) continue;
    e->changed[static_cast<std::size_t>(g)] = wall_;
    e->untold |= bit(g);
    any = true;
    urgent = urgent || g != Group::state;
  }
  e->facts = facts;
  if (!any) return;
  e->tell = urgent ? now_ : std::min(e->tell, now_ + options_.lazy);
  if (urgent) queue(*e);
  settle(*e);
}

void ClusterSharing::doubted(std::string_view key, const Facts& known) {
  if (!up_) return;
  Entry* e = entry(key, &known);
  if (e == nullptr) return;
  if (e->ever_doubted && now_ < e->doubted + options_.doubt) {
    e->doubt = e->doubted + options_.doubt;  // one request then for all doubts until then
    settle(*e);
    return;
  }
  e->ever_doubted = true;
  e->doubted = now_;
  e->ask = true;
  queue(*e);
  settle(*e);
}

void ClusterSharing::forgotten(std::string_view key) {
  Entry* e = find(key);
  if (e == nullptr) return;
  e->facts = {};
  e->changed.fill(wall_);
  e->untold = 0;
  for (const Group g : kAllGroups) e->untold |= bit(g);
  e->tell = now_;
  queue(*e);
  settle(*e);
}

void ClusterSharing::up() {
  up_ = true;
  slow_ = false;
  for (auto& [key, e] : entries_) {
    if (!e->held.empty()) e->ask = true;
    if (e->untold != 0) e->tell = now_;
    if (e->ask || e->untold != 0) queue(*e);
    settle(*e);
  }
}

void ClusterSharing::down() {
  up_ = false;
  slow_ = false;
  requests_.clear();
  queue_.clear();
  for (auto& [key, e] : entries_) {
    e->asking = e->telling = 0;
    e->queued = false;
    e->version = 0;  // the server may come back without its data
    e->said = 0;
    e->others = 0;
    if (e->probe != kNever) effects_.emplace_back(LookAgain{e->key});
    e->renew = e->probe = e->tell = e->doubt = kNever;
    if (e->held.empty() && e->wants.empty()) e->ask = false;
    grant_all(*e);
    show(*e, 0);
    settle(*e);
  }
}

std::vector<ClusterSharing::Request> ClusterSharing::take_requests() {
  std::vector<Request> out;
  if (!up_) return out;
  // Each entry is looked at once; one that must wait for its answer queues itself again later.
  for (std::size_t left = queue_.size(); left > 0 && requests_.size() + 1 < options_.under_way; --left) {
    Entry& e = *queue_.front();
    queue_.pop_front();
    e.queued = false;
    if (e.untold != 0 && e.telling == 0 && e.tell <= now_) {
      TellFacts tell{next_id_++, e.key, {}};
      for (const Group g : kAllGroups) {
        if ((e.untold & bit(g)) == 0) continue;
        tell.groups.emplace_back(group_name(g), encode_group(g, e.facts, e.changed[static_cast<std::size_t>(g)]));
      }
      e.untold = 0;
      e.tell = kNever;
      e.telling = tell.id;
      requests_[tell.id] = &e;
      out.emplace_back(std::move(tell));
    }
    if (e.ask && e.asking == 0) {
      AskLease ask{next_id_++, e.key, count(e.held.size()), 0, e.limit, e.version};
      for (Want& w : e.wants) {
        w.asked = true;
        ++ask.wanted;
      }
      e.ask = false;
      e.asking = ask.id;
      e.said = ask.held;
      requests_[ask.id] = &e;
      out.emplace_back(std::move(ask));
    }
    settle(e);
  }
  return out;
}

bool ClusterSharing::learn(Entry& e, const Told& told) {
  if (told.version == e.version && told.version != 0) return false;
  e.version = told.version;
  bool learned = false, better = false;
  std::uint8_t seen = 0;
  for (const auto& [name, bytes] : told.groups) {
    const auto g = group_of(name);
    if (!g || (seen & bit(*g)) != 0) continue;
    const auto got = decode_group(*g, bytes, wall_);
    if (!got) continue;
    seen |= bit(*g);
    auto& mine = e.changed[static_cast<std::size_t>(*g)];
    if (got->changed < mine) {
      if (!same_group(*g, got->facts, e.facts)) {
        e.untold |= bit(*g);
        better = true;
      }
      continue;
    }
    if (got->changed == mine || same_group(*g, got->facts, e.facts)) continue;
    // Our own connections work: the failures that others met are on their path.
    if (*g == Group::failure && got->facts.failures > 0 && e.opened) continue;
    copy_group(*g, got->facts, e.facts);
    mine = got->changed;
    e.untold &= static_cast<std::uint8_t>(~bit(*g));
    learned = true;
  }
  // Groups that the server does not have, or lost.
  for (const Group g : kAllGroups) {
    if ((seen & bit(g)) != 0 || same_group(g, e.facts, Facts{})) continue;
    e.untold |= bit(g);
    better = true;
  }
  if (better) {
    e.tell = now_;
    queue(e);
  }
  if (learned) {
    e.facts.used = std::max(e.facts.used, *std::max_element(e.changed.begin(), e.changed.end()));
    effects_.emplace_back(Learned{e.key, e.facts});
  }
  return learned;
}

void ClusterSharing::answered(std::uint64_t id, const LeaseAnswer& lease, const Told& told) {
  const auto it = requests_.find(id);
  if (it == requests_.end()) return;
  Entry& e = *it->second;
  requests_.erase(it);
  if (e.asking != id) return;
  e.asking = 0;
  slow_ = false;
  e.said += lease.granted;
  e.others = lease.others;
  // If this was known before, the scheduler has decided already (a flush tries hosts that failed).
  const bool away = learn(e, told) && keeps_away(e.facts) && !e.opened;
  const std::uint32_t limit = limit_of(e);
  const std::uint64_t room = std::uint64_t{limit} > std::uint64_t{lease.others} + e.held.size()
                                 ? std::uint64_t{limit} - lease.others - e.held.size()
                                 : 0;
  std::uint64_t usable = away ? 0 : std::min<std::uint64_t>(lease.granted, room);
  std::vector<Connection> taken, refused;
  std::vector<Want> later;
  for (const Want& w : std::exchange(e.wants, {})) {
    if (!w.asked) {
      later.push_back(w);
      continue;
    }
    waiting_.erase(w.connection);
    if (usable > 0) {
      --usable;
      taken.push_back(w.connection);
    } else {
      refused.push_back(w.connection);
    }
  }
  e.wants = std::move(later);
  for (const Connection c : taken) hold(e, c);
  // First the facts that the scheduler needs, so that it does not ask for the same again.
  const bool full = lease.others > 0 && std::uint64_t{lease.others} + e.held.size() >= limit;
  show(e, lease.others, full);
  if (full || !refused.empty()) e.probe = now_ + kAskAgain;  // otherwise a probe that is due stays
  for (const Connection c : refused) effects_.emplace_back(Refuse{c});
  if (!e.wants.empty() || e.said != e.held.size()) e.ask = true;
  e.renew = e.held.empty() ? kNever : now_ + options_.lease / 3;
  if (const std::uint32_t back = surplus(count(e.held.size()), limit, lease, now_ - e.held_since); back > 0)
    effects_.emplace_back(GiveBack{e.key, count(e.held.size()) - back});
  if (e.ask) queue(e);
  settle(e);
}

void ClusterSharing::answered(std::uint64_t id, std::uint64_t version) {
  const auto it = requests_.find(id);
  if (it == requests_.end()) return;
  Entry& e = *it->second;
  requests_.erase(it);
  if (e.telling != id) return;
  e.telling = 0;
  if (version == e.version + 1) e.version = version;  // otherwise others changed it too: read it with the next request
  if (e.untold != 0 && e.tell <= now_) queue(e);
  settle(e);
}

void ClusterSharing::tick() {
  while (!wakes_.empty() && wakes_.begin()->first <= now_) {
    Entry& e = *wakes_.begin()->second;
    if (e.renew <= now_) {
      e.renew = kNever;
      e.ask = true;
    }
    if (e.doubt <= now_) {
      e.doubt = kNever;
      e.doubted = now_;
      e.ask = true;
    }
    if (e.probe <= now_) {
      e.probe = kNever;
      effects_.emplace_back(LookAgain{e.key});
    }
    if (std::any_of(e.wants.begin(), e.wants.end(), [&](const Want& w) { return w.until <= now_; })) {
      // Mail does not wait for the server. Until the server answers again, connections are granted without asking it.
      slow_ = true;
      grant_all(e);
      e.ask = true;
    }
    if (e.ask || e.tell <= now_) queue(e);
    settle(e);
  }
}

SteadyTime ClusterSharing::next_wake() const { return wakes_.empty() ? kNever : wakes_.begin()->first; }

std::optional<std::uint32_t> ClusterSharing::elsewhere(std::string_view key) const {
  const auto it = entries_.find(std::string(key));
  if (!up_ || it == entries_.end()) return std::nullopt;
  return it->second->others;
}

std::vector<std::string> ClusterSharing::held_keys() const {
  std::vector<std::string> out;
  for (const auto& [key, e] : entries_)
    if (!e->held.empty()) out.push_back(key);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace pen::destdb
