#include "lib/queue/shaping/shared_rates.h"

#include <algorithm>

namespace pen::shaping {

namespace {
constexpr std::uint32_t kMostTokens = 10'000;  // for one request
}  // namespace

SharedRates::~SharedRates() = default;

SharedRates::Entry& SharedRates::entry(std::string_view key) {
  auto [at, fresh] = entries_.try_emplace(std::string(key));
  if (fresh) {
    at->second = std::make_unique<Entry>();
    at->second->key = key;
    at->second->look = now_;
    at->second->used = used_.insert(used_.end(), at->second.get());
    if (entries_.size() > options_.entries) drop_oldest();
  } else {
    used_.splice(used_.end(), used_, at->second->used);
  }
  return *at->second;
}

/// What is dropped has nothing under way, and asks anew when it is used again.
void SharedRates::drop_oldest() {
  for (Entry* e : used_) {
    if (e->asking != 0 || e->telling != 0 || e->queued || e->waiting > 0 || e == used_.back()) continue;
    wake_at(*e, kNever);
    used_.erase(e->used);
    entries_.erase(entries_.find(e->key));
    return;
  }
}

Rate SharedRates::part(Rate whole) const {
  if (!whole.limits()) return whole;
  return {std::max<std::uint64_t>(1, whole.thousandths / std::max<std::uint32_t>(1, hosts_))};
}

void SharedRates::set_own(Entry& e) { e.own.set(part(e.rate), now_); }

void SharedRates::set_rate(std::string_view key, Rate rate) {
  Entry& e = entry(key);
  if (e.rate == rate) return;
  e.rate = rate;
  e.tokens = 0;  // they were dealt at another rate
  set_own(e);
  if (!rate.limits()) effects_.push_back(Ready{e.key});
  ask_if_needed(e);
}

std::uint32_t SharedRates::available(std::string_view key) {
  Entry& e = entry(key);
  if (now_ >= e.look && by_server()) ask_if_needed(e);
  if (!e.rate.limits()) return kMostTokens;
  if (!by_server()) return e.own.ready(now_) ? 1 : 0;
  return now_ >= e.tokens_from && now_ < e.tokens_until ? e.tokens : 0;
}

SteadyTime SharedRates::next(std::string_view key, std::uint64_t before) {
  if (available(key) > before) return now_;
  if (by_server()) return kNever;
  const Bucket& own = entry(key).own;
  return std::max(own.next(), now_) + own.rate().interval() * static_cast<std::int64_t>(before);
}

void SharedRates::take(std::string_view key) {
  Entry& e = entry(key);
  if (!e.rate.limits()) return;
  if (!by_server())
    e.own.take(now_);
  else if (e.tokens > 0)
    --e.tokens;
}

void SharedRates::want(std::string_view key, std::uint32_t waiting) {
  Entry& e = entry(key);
  e.waiting = waiting;
  ask_if_needed(e);
}

void SharedRates::learned(std::string_view key, std::string text, milliseconds age) {
  Entry& e = entry(key);
  e.known = std::move(text);
  e.changed = now_ - std::max(age, milliseconds(0));
  e.untold = true;
  ask_if_needed(e);
}

/// Queues what is to be said of this key, or sets the time when it may be.
void SharedRates::ask_if_needed(Entry& e) {
  if (!by_server()) {
    const bool waits = e.rate.limits() && e.waiting > 0;
    wake_at(e, waits ? std::max(e.own.next(), now_) : kNever);
    return;
  }
  if (e.asking != 0 || e.telling != 0) return;  // looked at again with the answer
  if (wants_tokens(e) || e.untold || now_ >= e.look) return queue(e);
  wake_at(e, e.tokens > 0 && now_ < e.tokens_from ? e.tokens_from : kNever);
}

bool SharedRates::wants_tokens(const Entry& e) const {
  return e.rate.limits() && e.waiting > 0 && (e.tokens == 0 || now_ >= e.tokens_until);
}

void SharedRates::queue(Entry& e) {
  if (e.queued) return;
  e.queued = true;
  queue_.push_back(&e);
}

void SharedRates::wake_at(Entry& e, SteadyTime at) {
  if (e.wake == at) return;
  if (e.wake != kNever) wakes_.erase({e.wake, &e});
  e.wake = at;
  if (at != kNever) wakes_.insert({at, &e});
}

void SharedRates::up(std::uint32_t hosts) {
  up_ = true;
  slow_ = false;
  set_hosts(hosts);
  for (auto& [key, e] : entries_) {
    e->tokens = 0;
    e->look = now_;
    e->version = 0;  // the server may have lost its memory
    ask_if_needed(*e);
  }
}

void SharedRates::down() {
  up_ = false;
  requests_.clear();
  queue_.clear();
  for (auto& [key, e] : entries_) {
    e->untold = e->untold || e->telling != 0;  // nobody knows whether it was heard
    e->asking = e->telling = 0;
    e->queued = false;
  }
  fall_back();
}

/// From now on each host keeps to its share, which begins with a pause: the last tokens were just used.
void SharedRates::fall_back() {
  for (auto& [key, e] : entries_) {
    e->tokens = 0;
    set_own(*e);
    e->own.take(now_);
    ask_if_needed(*e);
  }
}

void SharedRates::set_hosts(std::uint32_t hosts) {
  if (hosts_ == std::max<std::uint32_t>(1, hosts)) return;
  hosts_ = std::max<std::uint32_t>(1, hosts);
  for (auto& [key, e] : entries_) set_own(*e);
}

void SharedRates::answered(std::uint64_t id, const Answer& answer) {
  const auto at = requests_.find(id);
  if (at == requests_.end()) return;
  Entry& e = *at->second;
  requests_.erase(at);
  e.asking = 0;
  if (slow_) {
    slow_ = false;
    for (auto& [key, other] : entries_) other->tokens = 0;
    for (auto& [key, other] : entries_)
      if (other.get() != &e) ask_if_needed(*other);
  }
  if (answer.granted > 0) {
    e.tokens = answer.granted;
    e.tokens_from = now_ + answer.wait;
    e.tokens_until = e.tokens_from + options_.token_life;
    if (answer.wait.count() == 0) effects_.push_back(Ready{e.key});
  }
  if (answer.version != e.version) {
    e.version = answer.version;
    // What was learned here and not sent yet is newer, or the server says so when it gets it.
    if (!answer.learned.empty() && !e.untold) {
      e.known = answer.learned;
      e.changed = now_ - answer.age;
      effects_.push_back(Heard{e.key, answer.learned, answer.age});
    }
  }
  if (answer.version == 0 && !e.known.empty()) e.untold = true;  // it has lost its memory
  ask_if_needed(e);
}

void SharedRates::told(std::uint64_t id, std::uint64_t version, bool newest) {
  const auto at = requests_.find(id);
  if (at == requests_.end()) return;
  Entry& e = *at->second;
  requests_.erase(at);
  e.telling = 0;
  if (newest) {
    e.version = version;
  } else {  // somebody knows better
    e.version = 0;
    e.look = now_;
  }
  ask_if_needed(e);
}

void SharedRates::tick() {
  while (!wakes_.empty() && wakes_.begin()->first <= now_) {
    Entry& e = *wakes_.begin()->second;
    wake_at(e, kNever);
    if (e.waiting > 0) effects_.push_back(Ready{e.key});
  }
  if (!by_server()) return;
  if (now_ >= out_of_patience()) {
    slow_ = true;
    fall_back();
  }
}

SteadyTime SharedRates::out_of_patience() const {
  for (const auto& [id, e] : requests_)
    if (e->asking == id) return e->asked + options_.patience;
  return kNever;
}

SteadyTime SharedRates::next_wake() const {
  SteadyTime at = wakes_.empty() ? kNever : wakes_.begin()->first;
  if (!queue_.empty() && requests_.size() < options_.under_way) at = std::min(at, now_);
  return by_server() ? std::min(at, out_of_patience()) : at;
}

std::vector<SharedRates::Request> SharedRates::take_requests() {
  std::vector<Request> out;
  if (!up_) return out;
  while (!queue_.empty() && requests_.size() < options_.under_way) {
    Entry& e = *queue_.front();
    queue_.pop_front();
    e.queued = false;
    const std::uint64_t id = next_id_++;
    if (e.untold) {
      e.untold = false;
      e.telling = id;
      requests_.emplace(id, &e);
      out.push_back(Tell{id, e.key, e.known, std::chrono::floor<milliseconds>(now_ - e.changed)});
      continue;
    }
    std::uint32_t wanted = 0;
    if (wants_tokens(e)) {
      const auto batch = static_cast<std::uint64_t>(options_.batch / e.rate.interval());
      const auto most = std::clamp<std::uint64_t>(batch / hosts_, 1, kMostTokens);
      wanted = static_cast<std::uint32_t>(std::min<std::uint64_t>(e.waiting, most));
    }
    e.asking = id;
    e.asked = now_;
    e.look = now_ + options_.look;
    requests_.emplace(id, &e);
    out.push_back(Ask{.id = id, .key = e.key, .wanted = wanted, .rate = e.rate, .hosts = hosts_, .version = e.version});
  }
  return out;
}

// Times are the server's, in microseconds: the hosts' clocks need not agree. `d` is when the next message is due, `l`
// what was learned, `u` the time of its change, `v` its version.
const std::string_view kRateScript = R"(
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local want, interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local granted, wait = 0, 0
if want > 0 then
  local due = tonumber(redis.call('HGET', KEYS[1], 'd')) or 0
  due = math.min(math.max(due, now), now + burst + tonumber(ARGV[4]) * interval)
  granted = math.max(1, math.min(want, math.floor((now + burst - due) / interval)))
  wait = math.max(0, due - now - burst)
  due = due + granted * interval
  redis.call('HSET', KEYS[1], 'd', string.format('%.0f', due))
end
local version = tonumber(redis.call('HGET', KEYS[1], 'v')) or 0
local learned, age = '', 0
if version ~= tonumber(ARGV[5]) then
  learned = redis.call('HGET', KEYS[1], 'l') or ''
  age = math.max(0, math.floor(now / 1000) - (tonumber(redis.call('HGET', KEYS[1], 'u')) or 0))
end
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return {granted, math.ceil(wait), version, learned, age}
)";

const std::string_view kLearnedScript = R"(
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local changed = now - tonumber(ARGV[2])
local newest = 0
-- A time that is still to come was told while the server's clock was wrong.
if changed >= math.min(tonumber(redis.call('HGET', KEYS[1], 'u')) or 0, now) then
  newest = 1
  redis.call('HSET', KEYS[1], 'l', ARGV[1], 'u', string.format('%.0f', changed))
  redis.call('HINCRBY', KEYS[1], 'v', 1)
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {tonumber(redis.call('HGET', KEYS[1], 'v')) or 0, newest}
)";

}  // namespace pen::shaping
