#include "lib/queue/destdb/destdb.h"

#include <algorithm>

#include "lib/base/lmdb/hints.h"

namespace pen::destdb {

Result<std::unique_ptr<DestDb>> DestDb::open(const std::string& directory, WallTime now) {
  std::string warning;
  auto db = lmdb::open_or_begin_anew(directory, "its content is lost, including suspensions by pendest", warning,
                                     [&]() -> Result<std::unique_ptr<DestDb>> {
                                       PEN_TRY_ASSIGN(auto file, open_lmdb(directory));
                                       return over(std::move(file), now);
                                     });
  if (db) (*db)->warning_ = std::move(warning);
  return db;
}

Result<std::unique_ptr<DestDb>> DestDb::over(std::shared_ptr<File> file, WallTime now) {
  auto db = std::make_unique<DestDb>();
  db->file_ = std::move(file);
  PEN_TRY_ASSIGN(auto contents, db->file_->load());
  for (auto& [key, facts] : contents.facts) db->facts_.emplace(std::move(key), std::move(facts));
  for (auto& s : contents.suspensions) {
    std::string name = s.name;
    db->suspensions_.emplace(std::move(name), std::move(s));
  }
  for (auto& [key, value] : contents.notes) db->notes_.emplace(std::move(key), std::move(value));
  for (auto& [key, learned] : contents.learned) db->learned_.emplace(std::move(key), std::move(learned));
  db->collect(now);
  return db;
}

void DestDb::put(std::string_view key, const Facts& facts) {
  if (facts_.size() >= max_records_ && !facts_.contains(std::string(key))) make_room();
  MemoryTable::put(key, facts);
  changed_.emplace(key);
}

void DestDb::make_room() {
  // The oldest of a few records at a moving place: sorting a million records for one new one would cost too much.
  constexpr std::size_t kLookedAt = 8;
  const std::string* oldest = nullptr;
  WallTime age = WallTime::max();
  std::size_t seen = 0;
  for (std::size_t tries = 0; tries < facts_.bucket_count() && seen < kLookedAt; ++tries) {
    if (++place_ >= facts_.bucket_count()) place_ = 0;
    for (auto it = facts_.begin(place_); it != facts_.end(place_); ++it) {
      ++seen;
      if (oldest != nullptr && it->second.used >= age) continue;
      oldest = &it->first;
      age = it->second.used;
    }
  }
  if (oldest != nullptr) forget(std::string(*oldest));
}

void DestDb::suspend(Suspension s) {
  changed_suspensions_.insert(s.name);
  MemoryTable::suspend(std::move(s));
}

bool DestDb::resume(std::string_view name) {
  if (!MemoryTable::resume(name)) return false;
  changed_suspensions_.emplace(name);
  return true;
}

void DestDb::note(const std::string& key, std::optional<std::string> value) {
  if (value)
    notes_.insert_or_assign(key, *std::move(value));
  else
    notes_.erase(key);
  changed_notes_.insert(key);
}

bool DestDb::forget(std::string_view key) {
  if (facts_.erase(std::string(key)) == 0) return false;
  changed_.emplace(key);
  return true;
}

void DestDb::put_learned(std::string_view key, const shaping::Learned& learned) {
  if (learned_.size() >= kMaxLearned && !learned_.contains(std::string(key))) {
    // Any that was not ordered: with so many limits the oldest is long forgotten.
    const auto old = std::ranges::find_if(learned_, [](const auto& l) { return l.second.ordered == 0; });
    if (old == learned_.end()) return;
    forget_learned(std::string(old->first));
  }
  MemoryTable::put_learned(key, learned);
  changed_learned_.emplace(key);
}

void DestDb::forget_learned(std::string_view key) {
  if (learned_.erase(std::string(key)) > 0) changed_learned_.emplace(key);
}

std::vector<Change> DestDb::take_changes(std::size_t most) {
  std::vector<Change> out;
  out.reserve(std::min(most, changes()));
  // Administrators' orders first.
  const auto take = [&](std::unordered_set<std::string>& from, auto&& make) {
    for (auto it = from.begin(); it != from.end() && out.size() < most; it = from.erase(it)) out.push_back(make(*it));
  };
  take(changed_suspensions_, [this](const std::string& name) {
    Change c{Change::Kind::suspension, name, {}, {}};
    if (const auto it = suspensions_.find(name); it != suspensions_.end()) c.suspension = it->second;
    return c;
  });
  take(changed_notes_, [this](const std::string& key) { return note_as_it_is(key); });
  take(changed_learned_, [this](const std::string& key) {
    Change c{Change::Kind::learned, key, {}, {}};
    c.learned = find_learned(key);
    return c;
  });
  take(changed_, [this](const std::string& key) { return Change{Change::Kind::facts, key, find(key), {}}; });
  std::sort(out.begin(), out.end(), [](const Change& a, const Change& b) { return a.key < b.key; });
  return out;
}

Change DestDb::note_as_it_is(const std::string& key) const {
  Change c{Change::Kind::note, key, {}, {}};
  if (const auto it = notes_.find(key); it != notes_.end()) c.note = it->second;
  return c;
}

std::vector<Change> DestDb::take_notes(const std::vector<std::string>& keys) {
  std::vector<Change> out;
  for (const std::string& key : keys)
    if (changed_notes_.erase(key) > 0) out.push_back(note_as_it_is(key));
  return out;
}

void DestDb::put_back(const std::vector<Change>& changes) {
  for (const Change& c : changes) {
    switch (c.kind) {
      case Change::Kind::facts:
        changed_.insert(c.key);
        break;
      case Change::Kind::suspension:
        changed_suspensions_.insert(c.key);
        break;
      case Change::Kind::note:
        changed_notes_.insert(c.key);
        break;
      case Change::Kind::learned:
        changed_learned_.insert(c.key);
        break;
    }
  }
}

bool DestDb::stale(const shaping::Learned& l, WallTime now) {
  return l.ordered == 0 && l.used <= now && now - l.used > kKeptLearned;
}

bool DestDb::stale(const Facts& f, WallTime now) {
  // A record from the future was made before the clock was set back: it counts as new.
  if (f.used <= now && now - f.used > kKeptFor) return true;
  return f.failures > 0 && f.next_retry <= now && now - f.next_retry > kKeptFailing;
}

std::size_t DestDb::collect(WallTime now) {
  std::vector<std::string> gone;
  for (const auto& [key, f] : facts_) {
    if (stale(f, now)) gone.push_back(key);
  }
  for (const auto& key : gone) forget(key);
  std::vector<std::string> old;
  for (const auto& [key, l] : learned_)
    if (stale(l, now)) old.push_back(key);
  for (const auto& key : old) forget_learned(key);
  if (facts_.size() <= max_records_) return gone.size();
  std::vector<std::pair<WallTime, std::string>> by_age;
  for (const auto& [key, f] : facts_) by_age.emplace_back(f.used, key);
  std::sort(by_age.begin(), by_age.end());
  by_age.resize(facts_.size() - max_records_);
  for (const auto& [used, key] : by_age) forget(key);
  return gone.size() + by_age.size();
}

std::vector<std::string> DestDb::collect_some(WallTime now, std::size_t most) {
  // If the table has grown since the last call, its places have moved: records missed now are met in the next round.
  std::vector<std::string> gone;
  for (std::size_t i = 0; i < std::min(most, facts_.bucket_count()); ++i) {
    if (++place_ >= facts_.bucket_count()) place_ = 0;
    for (auto it = facts_.begin(place_); it != facts_.end(place_); ++it)
      if (stale(it->second, now)) gone.push_back(it->first);
  }
  for (const auto& key : gone) forget(key);
  return gone;
}

}  // namespace pen::destdb
