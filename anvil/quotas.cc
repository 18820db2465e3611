#include "anvil/quotas.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lib/base/codec.h"

namespace pen::anvil {
namespace {

constexpr std::int64_t kHour = 3600, kDay = 24 * kHour;
constexpr std::size_t kLookedAt = 8;

struct StoredUsed {
  std::int64_t hour = 0, day = 0;
  std::uint32_t hour_messages = 0, hour_recipients = 0, day_messages = 0, day_recipients = 0;
  PEN_FIELDS(hour, day, hour_messages, hour_recipients, day_messages, day_recipients)
};

void add(std::uint32_t& count, std::uint32_t more) {
  count = more > std::numeric_limits<std::uint32_t>::max() - count ? std::numeric_limits<std::uint32_t>::max()
                                                                   : count + more;
}

bool beyond(std::uint32_t used, std::uint32_t more, std::uint32_t limit) {
  return limit > 0 && std::uint64_t{used} + more > limit;
}

}  // namespace

void Quotas::renew(Used& used, std::int64_t now) {
  // A clock that was set back must not lengthen a window.
  const auto over = [&](const Window& w, std::int64_t length) { return now - w.begin >= length || now < w.begin; };
  if (over(used.hour, kHour)) used.hour = {.begin = now};
  if (over(used.day, kDay)) used.day = {.begin = now};
}

bool Quotas::stale(const Used& used, std::int64_t now) {
  return since(used.hour.begin, now) >= kHour && since(used.day.begin, now) >= kDay;
}

void Quotas::take(std::string_view key, std::string_view value) {
  if (!key.starts_with(kQuotaKind) || users_.size() >= most_) return;
  const auto s = decode<StoredUsed>(value);
  if (!s) return;
  users_.emplace(key.substr(1), Used{.hour = {s->hour, s->hour_messages, s->hour_recipients},
                                     .day = {s->day, s->day_messages, s->day_recipients}});
}

Quotas::Answer Quotas::ask(const Question& q, WallTime wall) {
  using Limit = ipc::sender_memory::QuotaLimit;
  const std::int64_t now = unix_seconds(wall);
  Answer answer{.request = q.request};
  for (std::size_t i = 0; i < q.users.size(); ++i) {
    const auto& user = q.users[i];
    const auto at = users_.find(user.name);
    Used used = at == users_.end() ? Used() : at->second;
    renew(used, now);
    const auto refuse = [&](Limit limit, const Window& window, std::int64_t length) {
      answer.exceeded = limit;
      answer.user = static_cast<std::uint32_t>(i);
      answer.wait = static_cast<std::uint32_t>(std::max<std::int64_t>(1, length - since(window.begin, now)));
    };
    // The day first: a user who has used it up need not come back in an hour.
    if (beyond(used.day.messages, q.messages, user.messages_per_day))
      refuse(Limit::messages_per_day, used.day, kDay);
    else if (beyond(used.day.recipients, q.recipients, user.recipients_per_day))
      refuse(Limit::recipients_per_day, used.day, kDay);
    else if (beyond(used.hour.messages, q.messages, user.messages_per_hour))
      refuse(Limit::messages_per_hour, used.hour, kHour);
    else if (beyond(used.hour.recipients, q.recipients, user.recipients_per_hour))
      refuse(Limit::recipients_per_hour, used.hour, kHour);
    if (answer.exceeded != Limit::none) return answer;
  }
  if (q.look) return answer;
  for (const auto& user : q.users) {
    if (!counts(user.name)) continue;
    Used& used = used_of(user.name);
    renew(used, now);
    for (Window* window : {&used.hour, &used.day}) {
      add(window->messages, q.messages);
      add(window->recipients, q.recipients);
    }
    changed_.insert(user.name);
  }
  return answer;
}

Quotas::Used& Quotas::used_of(const std::string& name) {
  auto at = users_.find(name);
  if (at == users_.end()) {
    make_room();
    at = users_.emplace(name, Used()).first;
  }
  return at->second;
}

void Quotas::learn(const std::string& name, const Sent& hour, const Sent& day, WallTime wall) {
  if (!counts(name) || day.messages == 0) return;  // a look at a user who has sent nothing takes no place
  const std::int64_t now = unix_seconds(wall);
  Used& used = used_of(name);
  renew(used, now);
  const auto take_larger = [&](Window& window, const Sent& sent, std::int64_t length) {
    if (sent.since.count() >= length || sent.messages < window.messages) return;
    window = {now - sent.since.count(), sent.messages, std::max(sent.recipients, window.recipients)};
  };
  take_larger(used.hour, hour, kHour);
  take_larger(used.day, day, kDay);
  changed_.insert(name);
}

void Quotas::make_room() {
  if (users_.size() < most_) return;
  const std::string* least = nullptr;
  std::uint32_t sent = 0;
  visit_some(users_, place_, kLookedAt, [&](const std::string& name, const Used& used) {
    if (least != nullptr && used.day.recipients >= sent) return;
    least = &name;
    sent = used.day.recipients;
  });
  if (least == nullptr) return;
  const std::string gone = *least;
  changed_.insert(gone);
  users_.erase(gone);
}

void Quotas::collect_some(WallTime wall, std::size_t most) {
  const std::int64_t now = unix_seconds(wall);
  std::vector<std::string> gone;
  visit_some(users_, place_, most, [&](const std::string& name, const Used& used) {
    if (stale(used, now)) gone.push_back(name);
  });
  for (const std::string& name : gone) {
    users_.erase(name);
    changed_.insert(name);
  }
}

std::vector<Change> Quotas::take_changes(std::size_t most) {
  std::vector<Change> out;
  for (auto it = changed_.begin(); it != changed_.end() && out.size() < most; it = changed_.erase(it)) {
    Change change{kQuotaKind + *it, std::nullopt};
    if (const auto at = users_.find(*it); at != users_.end()) {
      const Used& u = at->second;
      change.value = encode(
          StoredUsed{u.hour.begin, u.day.begin, u.hour.messages, u.hour.recipients, u.day.messages, u.day.recipients});
    }
    out.push_back(std::move(change));
  }
  return out;
}

}  // namespace pen::anvil
