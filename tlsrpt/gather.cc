#include "tlsrpt/gather.h"

#include <algorithm>
#include <chrono>

#include "lib/base/text.h"

namespace pen::tlsrpt {
namespace {

std::string cut(const std::string& text) { return printable(text, Gathering::kMaxText); }
std::vector<std::string> cut(const std::vector<std::string>& texts) {
  std::vector<std::string> out;
  for (const auto& t : texts)
    if (out.size() < Gathering::kMaxStrings) out.push_back(cut(t));
  return out;
}

/// True: the text is safe in a DNS name and in a header field.
bool host_name(std::string_view text) {
  return !text.empty() && text.size() <= 255 && text.front() != '.' &&
         std::ranges::all_of(text, [](char c) { return ascii_alnum(c) || c == '-' || c == '.' || c == '_'; });
}

/// FNV-1a with the seed mixed in: spread, not secrecy.
std::uint64_t spread(std::uint64_t seed, std::string_view text) {
  std::uint64_t h = 14695981039346656037ULL ^ seed;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return ((h ^ (h >> 32)) * 0x9E3779B97F4A7C15ULL) >> 16;
}

}  // namespace

std::int64_t day_of(WallTime t) { return std::chrono::floor<std::chrono::days>(t).time_since_epoch().count(); }

WallTime Gathering::send_time(std::int64_t day, std::string_view domain) const {
  const auto end = WallTime(std::chrono::days(day + 1));
  const auto width = static_cast<std::uint64_t>(kSpread.count());
  return end + seconds(spread(seed_ + static_cast<std::uint64_t>(day), domain) % width);
}

bool Gathering::add(const Attempt& attempt, WallTime now) {
  const Key key{day_of(now), to_lower(attempt.domain)};
  if (!host_name(key.second)) return false;
  auto at = days_.find(key);
  if (at == days_.end()) {
    if (days_.size() >= kMaxDomains) return false;
    at = days_.emplace(key, DomainDay{key.first, key.second, {}, {}}).first;
  }
  changed_.insert(key);
  auto& policies = at->second.policies;
  const auto strings = cut(attempt.policy_strings), patterns = cut(attempt.mx_patterns);
  auto p = std::ranges::find_if(policies, [&](const PolicyResult& one) {
    return one.type == attempt.policy && one.strings == strings && one.mx_patterns == patterns;
  });
  if (p == policies.end()) {
    if (policies.size() < kMaxPolicies) {
      PolicyResult fresh;
      fresh.type = attempt.policy;
      fresh.strings = strings;
      fresh.mx_patterns = patterns;
      policies.push_back(std::move(fresh));
    }
    p = policies.end() - 1;  // too many policies: count under the last one
  }
  if (attempt.result == ResultType::success) {
    ++p->successes;
    return true;
  }
  ++p->failures;
  Failure f{
      attempt.result, cut(attempt.sending_ip), cut(attempt.mx_host), cut(attempt.receiving_ip), cut(attempt.reason), 1};
  const auto same = std::ranges::find_if(p->details, [&](const Failure& d) {
    return d.result == f.result && d.sending_ip == f.sending_ip && d.mx_host == f.mx_host &&
           d.receiving_ip == f.receiving_ip && d.reason == f.reason;
  });
  if (same != p->details.end())
    ++same->count;
  else if (p->details.size() < kMaxDetails)
    p->details.push_back(std::move(f));
  return true;
}

void Gathering::restore(DomainDay stored) {
  if (days_.size() >= kMaxDomains || stored.domain.empty()) return;
  Key key{stored.day, stored.domain};
  days_.insert_or_assign(std::move(key), std::move(stored));
}

std::vector<std::pair<std::int64_t, std::string>> Gathering::due(WallTime now, bool all) const {
  std::vector<Key> out;
  for (const auto& [key, day] : days_) {
    if (!all && key.first >= day_of(now)) break;
    if (all || send_time(key.first, key.second) <= now) out.push_back(key);
  }
  return out;
}

const DomainDay* Gathering::find(std::int64_t day, const std::string& domain) const {
  const auto at = days_.find({day, domain});
  return at == days_.end() ? nullptr : &at->second;
}

void Gathering::note_reached(std::int64_t day, const std::string& domain, const std::string& target) {
  const auto at = days_.find({day, domain});
  if (at == days_.end()) return;
  at->second.reached.push_back(target);
  changed_.insert(at->first);
}

void Gathering::remove(std::int64_t day, const std::string& domain) {
  if (days_.erase({day, domain}) > 0) changed_.insert({day, domain});
}

std::size_t Gathering::drop_old(WallTime now) {
  std::size_t n = 0;
  while (!days_.empty() && days_.begin()->first.first < day_of(now) - kOldest) {
    changed_.insert(days_.begin()->first);
    days_.erase(days_.begin());
    ++n;
  }
  return n;
}

std::vector<Change> Gathering::take_changes() {
  std::vector<Change> out;
  for (const Key& key : std::exchange(changed_, {})) {
    Change c{key.first, key.second, std::nullopt};
    if (const auto at = days_.find(key); at != days_.end()) c.value = at->second;
    out.push_back(std::move(c));
  }
  return out;
}

}  // namespace pen::tlsrpt
