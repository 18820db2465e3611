#include "lib/queue/views/limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/text.h"

namespace pen::views {

using ipc::destinations::Limit;
using ipc::destinations::Quota;

namespace {
/// "a@b.example" and "b.example" are of b.example.
std::string domain_of(std::string_view sender) { return to_lower(sender.substr(sender.rfind('@') + 1)); }

std::int64_t in_seconds(milliseconds time) { return std::chrono::ceil<seconds>(time).count(); }
}  // namespace

std::string limit_subject(const Limit& l) {
  std::string text = l.group.empty() ? l.name : l.group;
  if (!l.group.empty() && !l.name.empty()) text += " by " + l.name;
  if (!l.source.empty()) text += " from " + l.source;
  if (!l.domain.empty()) text += " of " + l.domain;
  return text;
}

std::string limit_bounds(const Limit& l) {
  std::string text = l.rate.empty() ? "" : "at most " + l.rate;
  if (l.connections > 0) text += fmt::format("{}{} connections", text.empty() ? "at most " : " and ", l.connections);
  return text;
}

std::string limits_why(const std::vector<Limit>& limits, const std::vector<Quota>& quotas) {
  const auto common = [](const Limit& l) { return l.domain.empty(); };
  for (const Limit& l : limits)
    if (common(l) && l.held.count() > 0) return fmt::format("rests for {} s", in_seconds(l.held));
  std::string text;
  for (std::size_t i = 0; i < limits.size() && text.empty(); ++i)
    if (const Quota* q = common(limits[i]) ? full_quota(i, quotas) : nullptr; q != nullptr)
      text = fmt::format("has had {}, the next in {} s", q->rate, in_seconds(q->opens));
  for (std::size_t i = 0; i < limits.size() && text.empty(); ++i)
    if (common(limits[i]) && !limits[i].rate.empty()) text = "at most " + limits[i].rate;
  if (const auto jobs = jobs_at_limits(limits); jobs > 0)
    text += fmt::format("{}{} {} at limits", text.empty() ? "" : ", ", jobs, jobs == 1 ? "job waits" : "jobs wait");
  return text;
}

const Quota* full_quota(std::size_t limit, const std::vector<Quota>& quotas) {
  const Quota* last = nullptr;
  for (const Quota& q : quotas)
    if (q.limit == limit && q.opens.count() > 0 && (last == nullptr || q.opens > last->opens)) last = &q;
  return last;
}

std::string quota_text(const Quota& q) {
  std::string text = fmt::format("{} of {}", q.used, q.rate);
  if (!q.rate.starts_with(std::to_string(q.most) + "/")) text += fmt::format(" (this host's part: {})", q.most);
  if (q.opens.count() > 0) text += fmt::format(", the next in {} s", in_seconds(q.opens));
  return text;
}

std::uint64_t jobs_at_limits(const std::vector<Limit>& limits) {
  std::uint64_t jobs = 0;
  for (const Limit& l : limits) jobs += l.waiting;  // a job waits at one of them
  return jobs;
}

bool holds_for(const Limit& l, const Mail& mail) {
  return (l.domain.empty() || to_lower(l.domain) == domain_of(mail.sender)) &&
         (l.source.empty() || l.source == mail.source);
}

Holding limit_that_holds(const std::vector<Limit>& limits, const std::vector<Quota>& quotas, const Mail& mail) {
  Holding longest;
  milliseconds rests{0};
  for (std::size_t i = 0; i < limits.size(); ++i) {
    if (!holds_for(limits[i], mail)) continue;
    if (limits[i].held > rests) {
      longest = {&limits[i], nullptr};
      rests = limits[i].held;
    }
    if (const Quota* q = full_quota(i, quotas); q != nullptr && q->opens > rests) {
      longest = {&limits[i], q};
      rests = q->opens;
    }
  }
  if (longest.limit != nullptr) return longest;
  const auto at = std::ranges::find_if(limits, [&](const Limit& l) { return l.waiting > 0 && holds_for(l, mail); });
  return {at == limits.end() ? nullptr : &*at, nullptr};
}

}  // namespace pen::views
