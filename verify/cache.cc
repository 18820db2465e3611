#include "verify/cache.h"

#include <algorithm>

#include "lib/base/codec.h"
#include "lib/base/text.h"

namespace pen::verify {
namespace {

struct Stored {
  State state = State::good;
  std::string text;
  std::int64_t updated = 0, probed = 0;
  PEN_FIELDS(state, text, updated, probed)
};
constexpr std::size_t kMostKey = 511;  // of LMDB

std::int64_t since(std::int64_t then, std::int64_t now) { return std::max<std::int64_t>(0, now - then); }

}  // namespace

std::string Cache::key_of(std::string_view address) { return to_lower(address); }

bool Cache::expired(const Entry& e, std::int64_t now) const {
  if (e.state == State::good) return since(e.updated, now) > rules_.good_expires.count();
  return !rules_.keep_failed || since(e.updated, now) > rules_.failed_expires.count();
}

void Cache::put(const std::string& key, Entry entry) {
  if (const auto at = entries_.find(key); at != entries_.end()) unlink(at);
  const std::size_t more = cost(key, entry);
  while (!entries_.empty() && (entries_.size() >= most_ || bytes_ + more > kMostBytes))
    erase(entries_.find(failed_.empty() ? good_.begin()->second : failed_.begin()->second));
  bytes_ += more;
  entry.place = line_of(entry.state).emplace(entry.updated, key);
  entries_.emplace(key, std::move(entry));
}

void Cache::unlink(Entries::iterator at) {
  line_of(at->second.state).erase(at->second.place);
  bytes_ -= cost(at->first, at->second);
  entries_.erase(at);
}

void Cache::erase(Entries::iterator at) {
  changed_.insert(at->first);
  unlink(at);
}

std::optional<Cache::Known> Cache::find(const std::string& key, WallTime wall) {
  const auto at = entries_.find(key);
  if (at == entries_.end()) return std::nullopt;
  Entry& e = at->second;
  const std::int64_t now = unix_seconds(wall);
  e.updated = std::min(e.updated, now);
  e.probed = std::min(e.probed, now);
  if (expired(e, now)) return std::nullopt;
  const seconds refresh = e.state == State::good ? rules_.good_refresh : rules_.failed_refresh;
  return Known{e.state, e.text,
               since(e.updated, now) > refresh.count() && (e.probed == 0 || since(e.probed, now) > kProbeTime.count())};
}

void Cache::probed(const std::string& key, WallTime now) {
  const auto at = entries_.find(key);
  if (at == entries_.end()) return;
  at->second.probed = unix_seconds(now);
  changed_.insert(key);
}

Cache::Known Cache::result(const std::string& key, State state, std::string_view text, WallTime wall) {
  const std::int64_t now = unix_seconds(wall);
  const auto at = entries_.find(key);
  const bool known = at != entries_.end();
  text = text.substr(0, ipc::verify::kMostText);
  if (state != State::good && known && at->second.state == State::good && !expired(at->second, now))
    return {State::good, at->second.text, false};
  if (state != State::good && !rules_.keep_failed) {
    if (known) erase(at);
    return {state, std::string(text), false};
  }
  put(key, {state, std::string(text), now, 0, {}});
  changed_.insert(key);
  return {state, std::string(text), false};
}

bool Cache::forget(const std::string& key) {
  const auto at = entries_.find(key);
  if (at == entries_.end()) return false;
  erase(at);
  return true;
}

void Cache::take(std::string_view key_text, std::string_view value, WallTime wall, bool stored) {
  const std::int64_t now = unix_seconds(wall);
  const std::string key(key_text);
  auto s = decode<Stored>(value);
  if (!s || key.empty() || s->state == State::probing || s->state > State::bad || s->updated < 0 || s->probed < 0 ||
      s->text.size() > ipc::verify::kMostText)
    return;
  Entry e{s->state, std::move(s->text), std::min(s->updated, now), std::min(s->probed, now), {}};
  if (stored && entries_.size() >= most_) {
    changed_.insert(key);  // of a larger table: to be removed
    return;
  }
  if (expired(e, now)) {
    if (stored) changed_.insert(key);
    return;
  }
  const auto at = entries_.find(key);
  if (at != entries_.end() && at->second.updated >= e.updated) return;
  if (!stored) changed_.insert(key);
  put(key, std::move(e));
}

std::optional<std::string> Cache::record(const std::string& key) const {
  const auto at = entries_.find(key);
  if (at == entries_.end()) return std::nullopt;
  const Entry& e = at->second;
  return encode(Stored{e.state, e.text, e.updated, e.probed});
}

seconds Cache::holds_for(const std::string& key, WallTime now) const {
  const auto at = entries_.find(key);
  if (at == entries_.end()) return seconds(0);
  const seconds expires = at->second.state == State::good ? rules_.good_expires : rules_.failed_expires;
  return std::max(seconds(0), expires - seconds(since(at->second.updated, unix_seconds(now))));
}

std::vector<lmdb::Change> Cache::take_changes(std::size_t most) {
  std::vector<lmdb::Change> out;
  for (auto it = changed_.begin(); it != changed_.end() && out.size() < most; it = changed_.erase(it))
    if (it->size() <= kMostKey) out.push_back({*it, record(*it)});
  return out;
}

std::size_t Cache::drop_expired(WallTime wall, std::size_t most) {
  const std::int64_t now = unix_seconds(wall);
  std::size_t dropped = 0;
  for (auto* line : {&failed_, &good_}) {
    while (!line->empty() && dropped < most) {
      const auto at = entries_.find(line->begin()->second);
      if (!expired(at->second, now)) break;
      erase(at);
      ++dropped;
    }
  }
  return dropped;
}

ipc::verify::Entry Cache::shown(const std::string& key, const Entry& e) {
  return {.address = key, .state = e.state, .text = e.text, .updated = e.updated, .probed = e.probed};
}

std::vector<ipc::verify::Entry> Cache::list(const std::string& after, std::size_t most) const {
  std::vector<ipc::verify::Entry> out;
  for (auto at = entries_.upper_bound(after); at != entries_.end() && out.size() < most; ++at)
    out.push_back(shown(at->first, at->second));
  return out;
}

std::optional<ipc::verify::Entry> Cache::entry(const std::string& key) const {
  const auto at = entries_.find(key);
  if (at == entries_.end()) return std::nullopt;
  return shown(key, at->second);
}

}  // namespace pen::verify
