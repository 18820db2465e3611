#include "lib/destdb/destdb.h"

#include <algorithm>
#include <filesystem>

namespace pen::destdb {

Result<std::unique_ptr<DestDb>> DestDb::open(const std::string& directory, WallTime now) {
  auto attempt = [&]() -> Result<std::unique_ptr<DestDb>> {
    PEN_TRY_ASSIGN(auto file, open_lmdb(directory));
    return over(std::move(file), now);
  };
  auto db = attempt();
  if (db || !db.error().is(DestDbError::damaged)) return db;
  // Set aside for whoever wants to look, and begun anew: only hints are lost.
  const std::string why = db.error().message();
  const std::string aside = directory + ".damaged";
  std::error_code code;
  std::filesystem::remove_all(aside, code);
  std::filesystem::rename(directory, aside, code);
  if (code) return fail(Error::from_errno(code.value(), "set aside " + directory));
  db = attempt();
  if (db)
    (*db)->warning_ =
        why + "; set aside as " + aside + "; what it held is lost, suspensions by pendest too";
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
  db->collect(now);
  return db;
}

void DestDb::put(std::string_view key, const Facts& facts) {
  MemoryTable::put(key, facts);
  changed_.emplace(key);
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

bool DestDb::forget(std::string_view key) {
  if (facts_.erase(std::string(key)) == 0) return false;
  changed_.emplace(key);
  return true;
}

std::vector<Change> DestDb::take_changes() {
  std::vector<Change> out;
  out.reserve(changed_.size() + changed_suspensions_.size());
  for (const auto& key : changed_) out.push_back({Change::Kind::facts, key, find(key), {}});
  for (const auto& name : changed_suspensions_) {
    auto& c = out.emplace_back(Change{Change::Kind::suspension, name, {}, {}});
    if (const auto it = suspensions_.find(name); it != suspensions_.end())
      c.suspension = it->second;
  }
  changed_.clear();
  changed_suspensions_.clear();
  std::sort(out.begin(), out.end(), [](const Change& a, const Change& b) { return a.key < b.key; });
  return out;
}

void DestDb::put_back(const std::vector<Change>& changes) {
  for (const Change& c : changes)
    (c.kind == Change::Kind::facts ? changed_ : changed_suspensions_).insert(c.key);
}

std::size_t DestDb::collect(WallTime now) {
  std::vector<std::string> stale;
  for (const auto& [key, f] : facts_) {
    // A record from the future tells of a clock that was set back: it is as good as new.
    if (f.used <= now && now - f.used > kKeptFor) {
      stale.push_back(key);
    } else if (f.failures > 0 && f.next_retry <= now && now - f.next_retry > kKeptFailing) {
      stale.push_back(key);
    }
  }
  if (facts_.size() - stale.size() > kMaxRecords) {
    std::vector<std::pair<WallTime, std::string>> by_age;
    for (const auto& [key, f] : facts_) by_age.emplace_back(f.used, key);
    std::sort(by_age.begin(), by_age.end());
    by_age.resize(facts_.size() - kMaxRecords);
    for (auto& [used, key] : by_age) stale.push_back(std::move(key));
  }
  std::size_t gone = 0;
  for (const auto& key : stale) gone += forget(key) ? 1 : 0;
  return gone;
}

}  // namespace pen::destdb
