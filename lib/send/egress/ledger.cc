#include "lib/send/egress/ledger.h"

#include <algorithm>

#include "lib/base/text.h"

namespace pen::egress {
namespace {

constexpr seconds kFirstRest{30}, kLongestRest{900};
constexpr std::uint32_t kMostMessages = 100'000'000;
constexpr std::uint32_t kReserves = 32;  // a day's number in so many parts: a kill may cost one of them
constexpr std::size_t kMaxWhy = 300;
constexpr std::string_view kOthers = "*";

std::int64_t day_of(WallTime t) { return std::chrono::floor<std::chrono::days>(t).time_since_epoch().count(); }

std::string_view cut(std::string_view group) { return group.substr(0, kMaxGroup); }

}  // namespace

std::optional<std::vector<std::uint32_t>> parse_schedule(const std::vector<std::string>& words) {
  std::vector<std::uint32_t> out;
  for (const std::string& word : words) {
    const auto n = parse_unsigned(word);
    if (!n || *n == 0 || *n > kMostMessages || (!out.empty() && *n <= out.back())) return std::nullopt;
    out.push_back(static_cast<std::uint32_t>(*n));
  }
  if (out.size() > kMaxStages) return std::nullopt;
  return out;
}

const Entry* Ledger::find(std::uint32_t source, std::string_view group) const {
  if (entries_.empty()) return nullptr;
  auto at = entries_.find({file_.sources[source].name, std::string(cut(group))});
  if (at == entries_.end()) {
    if (entries_.size() < kMaxEntries) return nullptr;
    at = entries_.find({file_.sources[source].name, std::string(kOthers)});
  }
  return at == entries_.end() ? nullptr : &at->second;
}

Entry Ledger::as_of(Entry e, WallTime now) const {
  const std::int64_t day = day_of(now);
  const Source* s = file_.source(e.source);
  if (s != nullptr && e.day < s->warmup_from) e.stage = e.taken = e.accepted = 0;  // the warm-up begins anew
  if (day <= e.day) return e;  // a clock that was put back begins no day
  const std::uint64_t of = limit(e.stage);
  if (of > 0 && std::uint64_t{e.accepted} * 10 >= of * 9) ++e.stage;
  e.day = day;
  e.taken = e.accepted = 0;
  return e;
}

bool Ledger::make_room(WallTime now) {
  if (entries_.size() < kMaxEntries) return true;
  // Looked at once an hour, so that a flood of domains does not walk over all with each of them.
  if (now < swept_ + seconds(3600) && now >= swept_) return false;
  swept_ = now;
  std::erase_if(entries_, [&](const auto& kept) {
    const Entry& e = kept.second;
    const bool idle =
        e.day < day_of(now) && e.blocked_until <= now && (as_of(e, now).stage == 0 || e.day + 30 < day_of(now));
    if (idle) {
      changed(e);
      reserves_.erase(kept_key(kept.first));
    }
    return idle;
  });
  return entries_.size() < kMaxEntries;
}

Entry& Ledger::entry(std::uint32_t source, std::string_view group, WallTime now) {
  Key key{file_.sources[source].name, std::string(cut(group))};
  auto at = entries_.find(key);
  if (at == entries_.end()) {
    if (!make_room(now)) key.second = kOthers;
    at = entries_.try_emplace(key).first;
    if (at->second.source.empty()) {
      at->second.source = key.first;
      at->second.group = key.second;
      at->second.day = day_of(now);
    }
  }
  at->second = as_of(std::move(at->second), now);
  changed(at->second);
  return at->second;
}

std::string Ledger::obstacle(std::uint32_t source, std::string_view group, WallTime now, bool counted) const {
  const Source& s = file_.sources[source];
  if (const Failure& f = failures_[source]; f.until > now) return f.why;
  if (s.warmup_from > day_of(now)) return "its warm-up has not begun";
  const Entry* known = find(source, group);
  if (known == nullptr) return {};
  if (known->blocked_until > now) return known->why.empty() ? "blocked" : known->why;
  if (counted || !warms_up(source)) return {};
  const Entry e = as_of(*known, now);
  const std::uint32_t most = limit(e.stage);
  if (most == 0 || e.taken < most) return {};
  return "its warm-up allows " + std::to_string(most) + " messages to " + printable(e.group, 100) + " today";
}

bool Ledger::reserved(std::uint32_t source, std::string_view group, WallTime now) {
  if (!warms_up(source)) return true;
  const Entry& e = entry(source, group, now);
  if (limit(e.stage) == 0) return true;
  const auto at = reserves_.find(kept_key({e.source, e.group}));
  return at != reserves_.end() && at->second.day == e.day && e.taken < at->second.taken;
}

void Ledger::take(std::uint32_t source, std::string_view group, WallTime now) {
  if (!warms_up(source)) return;
  Entry& e = entry(source, group, now);
  e.taken = std::min(e.taken + 1, kMostMessages);
}

void Ledger::accepted(std::uint32_t source, std::string_view group, WallTime now) {
  if (!warms_up(source)) return;
  Entry& e = entry(source, group, now);
  e.accepted = std::min(e.accepted + 1, kMostMessages);
}

void Ledger::block(std::uint32_t source, std::string_view group, WallTime now, WallTime until, std::string_view why) {
  if (until <= now) return;
  Entry& e = entry(source, group, now);
  if (until <= e.blocked_until) return;
  e.blocked_until = until;
  e.why = printable(why, kMaxWhy);
}

void Ledger::unblock(std::uint32_t source, std::string_view group) {
  const auto at = entries_.find({file_.sources[source].name, std::string(cut(group))});
  if (at == entries_.end()) return;
  at->second.blocked_until = {};
  at->second.why.clear();
  changed(at->second);
}

seconds Ledger::failed(std::uint32_t source, WallTime now, std::string_view why) {
  Failure& f = failures_[source];
  if (f.until > now) return seconds(0);
  const seconds rest = std::min(kFirstRest * (1 << std::min<std::uint32_t>(f.count, 10)), kLongestRest);
  ++f.count;
  f.until = now + rest;
  f.why = printable(why, kMaxWhy);
  return rest;
}

void Ledger::forget(std::uint32_t source) {
  failures_[source] = {};
  const std::string& name = file_.sources[source].name;
  for (auto at = entries_.lower_bound({name, {}}); at != entries_.end() && at->first.first == name;) {
    changed(at->second);
    reserves_.erase(kept_key(at->first));
    at = entries_.erase(at);
  }
}

std::vector<Entry> Ledger::entries_of(std::uint32_t source, WallTime now) const {
  std::vector<Entry> out;
  const std::string& name = file_.sources[source].name;
  for (auto at = entries_.lower_bound({name, {}}); at != entries_.end() && at->first.first == name; ++at) {
    out.push_back(as_of(at->second, now));
    if (out.back().blocked_until > now) continue;
    out.back().blocked_until = {};
    out.back().why.clear();
  }
  return out;
}

std::vector<Ledger::Change> Ledger::take_changes(bool last) {
  std::vector<Change> out;
  if (last)
    for (const auto& [key, reserve] : reserves_) {
      const auto zero = key.find('\0');
      const auto at = entries_.find({key.substr(0, zero), key.substr(zero + 1)});
      if (at != entries_.end() && at->second.taken < reserve.taken) changed(at->second);
    }
  for (const std::string& key : changed_) {
    const auto zero = key.find('\0');
    const auto at = entries_.find({key.substr(0, zero), key.substr(zero + 1)});
    Change& c = out.emplace_back(Change{key, std::nullopt});
    if (at == entries_.end()) continue;
    Entry e = at->second;
    const Source* const source = file_.source(e.source);
    const std::uint32_t most = source != nullptr && source->warmup ? limit(e.stage) : 0;
    if (!last) e.taken = std::max(e.taken, std::min(most, e.taken + std::max(most / kReserves, 1U)));
    c.value = encode(e);
  }
  changed_.clear();
  return out;
}

void Ledger::kept(const std::vector<Change>& changes) {
  for (const Change& c : changes)
    if (const auto e = c.value ? decode<Entry>(*c.value) : std::nullopt) reserves_[c.key] = {e->day, e->taken};
}

bool Ledger::load(std::string_view value) {
  auto e = decode<Entry>(value);
  if (!e || e->group.empty() || e->group.size() > kMaxGroup || e->why.size() > kMaxWhy + 3 || e->day < 0 ||
      e->taken > kMostMessages || e->accepted > kMostMessages || e->stage > kMaxStages ||
      entries_.size() >= kMaxEntries || file_.source(e->source) == nullptr)
    return false;
  Key key{e->source, e->group};
  entries_.insert_or_assign(std::move(key), *std::move(e));
  return true;
}

}  // namespace pen::egress
