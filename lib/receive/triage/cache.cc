#include "lib/receive/triage/cache.h"

#include <algorithm>

namespace pen::triage {
namespace {

constexpr std::size_t kMostKey = 64;  // an address

}  // namespace

std::optional<Record> Cache::find(const std::string& key) const {
  const auto at = records_.find(key);
  if (at == records_.end()) return std::nullopt;
  return at->second;
}

void Cache::put(const std::string& key, const Record& record) {
  if (key.empty() || key.size() > kMostKey) return;
  if (records_.size() >= most_ && !records_.contains(key)) make_room();
  records_[key] = record;
  changed_.insert(key);
}

void Cache::take(std::string_view key, std::string_view value) {
  std::string own(key);
  if (own.empty() || records_.contains(own)) return;
  const auto record = Record::parse(value);
  if (!record || key_of(own) != own || records_.size() >= most_)
    changed_.insert(std::move(own));  // without a record: to be removed
  else
    records_.emplace(std::move(own), *record);
}

std::vector<lmdb::Change> Cache::take_changes(std::size_t most) {
  std::vector<lmdb::Change> out;
  while (!changed_.empty() && out.size() < most) {
    auto node = changed_.extract(changed_.begin());
    const auto at = records_.find(node.value());
    lmdb::Change change{.key = std::move(node.value()), .value = std::nullopt};
    if (at != records_.end()) change.value = at->second.text();
    out.push_back(std::move(change));
  }
  return out;
}

Cache::Dropped Cache::drop_old(WallTime now, seconds retention) {
  const std::int64_t before = unix_seconds(now) - retention.count();
  Dropped result;
  result.dropped = std::erase_if(records_, [&](const auto& row) {
    const bool old = row.second.end() < before;
    if (old) changed_.insert(row.first);
    return old;
  });
  result.kept = records_.size();
  return result;
}

void Cache::make_room() {
  std::vector<std::int64_t> ends;
  ends.reserve(records_.size());
  for (const auto& [key, record] : records_) ends.push_back(record.end());
  const auto eighth = ends.begin() + static_cast<std::ptrdiff_t>(ends.size() / 8);
  std::ranges::nth_element(ends, eighth);
  std::size_t left = ends.size() / 8 + 1;  // many may end in the same second
  std::erase_if(records_, [&, last = *eighth](const auto& row) {
    if (left == 0 || row.second.end() > last) return false;
    --left;
    changed_.insert(row.first);
    return true;
  });
}

}  // namespace pen::triage
