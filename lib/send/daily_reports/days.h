#pragma once
/// What has gathered for daily reports to domains, by day (UTC) and domain, until the report is sent.
///
/// Use:     Days<DomainDay> days(seed);  days.restore(each stored day);
///          if (DomainDay* today = days.today("a.example", wall_now)) … count in *today …
///          store.write(days.take_changes());
///          for (auto& [day, domain] : days.due(wall_now)) … send its report …, days.remove(day, domain);
/// Day:     a struct with `std::int64_t day` (since 1970-01-01), `std::string domain` (lower case),
///          `std::vector<std::string> reached` (targets that got the report while others did not) and PEN_FIELDS;
///          and besides `std::size_t bytes`, about what grows of it with what is counted, and
///          `std::size_t reckoned() const`, the same of one that was stored.
/// Time:    a parameter. A day's report is due after the end of the day and a delay of up to kSpread, which differs
///          by domain and by host, so that not all hosts report at midnight (RFC 8460 section 4.1).
/// Bounds:  kMaxDomains domain days, kMaxDayBytes of one, kMaxBytes of all: strangers choose texts and domains. Days
///          older than kOldest are dropped: their report would help nobody.
/// Thread:  one. No I/O.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/time.h"

namespace pen::daily_reports {

std::int64_t day_of(WallTime t);
/// True: the text is safe in a DNS name and in a header field.
bool is_host_name(std::string_view text);

inline constexpr seconds kSpread{4 * 3600};
/// When the report of that day is to be sent. seed: fixed for this host, also over restarts.
WallTime send_time(std::uint64_t seed, std::int64_t day, std::string_view domain);
/// For `seed`, of the host's name.
std::uint64_t seed_of(std::string_view host);

/// A change to the store; without a value: remove the entry.
template <class Day>
struct Change {
  std::int64_t day = 0;
  std::string domain;
  std::optional<Day> value;
};

template <class Day>
class Days {
 public:
  static constexpr std::size_t kMaxDomains = 100'000;
  static constexpr std::int64_t kOldest = 3;  // days
  // Thousands of usual rows; a day is written anew as a whole.
  static constexpr std::size_t kMaxDayBytes = std::size_t{4} << 20;
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20;  // the file has room for it several times

  explicit Days(std::uint64_t seed) : seed_(seed) {}

  /// The day of now, to count in. nullptr: there is no room for another domain, or the name is invalid.
  Day* today(std::string_view domain, WallTime now);
  /// The day is to have so many bytes more. False: there is no room for them.
  bool grow(Day& day, std::size_t more);
  /// False: there is no room for it, and it leaves the store with the next changes.
  bool restore(Day stored);
  /// The past days whose time has come, oldest first; all: every day, also the current one.
  std::vector<std::pair<std::int64_t, std::string>> due(WallTime now, bool all = false) const;
  const Day* find(std::int64_t day, const std::string& domain) const;
  /// Notes that a target has the report while another has not.
  void note_reached(std::int64_t day, const std::string& domain, const std::string& target);
  void remove(std::int64_t day, const std::string& domain);
  /// Drops days too old to report; returns how many.
  std::size_t drop_old(WallTime now);
  /// The changes since the last call.
  std::vector<Change<Day>> take_changes();
  std::size_t size() const { return days_.size(); }
  std::size_t bytes() const { return bytes_; }
  WallTime send_time(std::int64_t day, std::string_view domain) const {
    return daily_reports::send_time(seed_, day, domain);
  }

 private:
  using Key = std::pair<std::int64_t, std::string>;
  std::uint64_t seed_;
  std::map<Key, Day> days_;
  std::set<Key> changed_;
  std::size_t bytes_ = 0;  // of all
};

std::string lower_name(std::string_view domain);

template <class Day>
Day* Days<Day>::today(std::string_view domain, WallTime now) {
  Key key{day_of(now), lower_name(domain)};
  if (!is_host_name(key.second)) return nullptr;
  auto at = days_.find(key);
  if (at == days_.end()) {
    if (days_.size() >= kMaxDomains) return nullptr;
    Day fresh;
    fresh.day = key.first;
    fresh.domain = key.second;
    at = days_.emplace(key, std::move(fresh)).first;
  }
  changed_.insert(std::move(key));
  return &at->second;
}

template <class Day>
bool Days<Day>::grow(Day& day, std::size_t more) {
  if (day.bytes + more > kMaxDayBytes || bytes_ + more > kMaxBytes) return false;
  day.bytes += more;
  bytes_ += more;
  return true;
}

template <class Day>
bool Days<Day>::restore(Day stored) {
  stored.bytes = stored.reckoned();
  Key key{stored.day, stored.domain};
  if (days_.size() >= kMaxDomains || bytes_ + stored.bytes > kMaxBytes || stored.domain.empty()) {
    changed_.insert(std::move(key));
    return false;
  }
  if (const auto at = days_.find(key); at != days_.end()) bytes_ -= at->second.bytes;
  bytes_ += stored.bytes;
  days_.insert_or_assign(std::move(key), std::move(stored));
  return true;
}

template <class Day>
std::vector<std::pair<std::int64_t, std::string>> Days<Day>::due(WallTime now, bool all) const {
  std::vector<Key> out;
  for (const auto& [key, day] : days_) {
    if (!all && key.first >= day_of(now)) break;
    if (all || send_time(key.first, key.second) <= now) out.push_back(key);
  }
  return out;
}

template <class Day>
const Day* Days<Day>::find(std::int64_t day, const std::string& domain) const {
  const auto at = days_.find({day, domain});
  return at == days_.end() ? nullptr : &at->second;
}

template <class Day>
void Days<Day>::note_reached(std::int64_t day, const std::string& domain, const std::string& target) {
  const auto at = days_.find({day, domain});
  if (at == days_.end()) return;
  at->second.reached.push_back(target);
  changed_.insert(at->first);
}

template <class Day>
void Days<Day>::remove(std::int64_t day, const std::string& domain) {
  const auto at = days_.find({day, domain});
  if (at == days_.end()) return;
  bytes_ -= at->second.bytes;
  changed_.insert(at->first);
  days_.erase(at);
}

template <class Day>
std::size_t Days<Day>::drop_old(WallTime now) {
  std::size_t n = 0;
  while (!days_.empty() && days_.begin()->first.first < day_of(now) - kOldest) {
    bytes_ -= days_.begin()->second.bytes;
    changed_.insert(days_.begin()->first);
    days_.erase(days_.begin());
    ++n;
  }
  return n;
}

template <class Day>
std::vector<Change<Day>> Days<Day>::take_changes() {
  std::vector<Change<Day>> out;
  for (const Key& key : std::exchange(changed_, {})) {
    Change<Day> c{key.first, key.second, std::nullopt};
    if (const auto at = days_.find(key); at != days_.end()) c.value = at->second;
    out.push_back(std::move(c));
  }
  return out;
}

}  // namespace pen::daily_reports
