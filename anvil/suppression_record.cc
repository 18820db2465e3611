#include "anvil/suppression_record.h"

#include <algorithm>

#include "lib/base/idn/domain.h"
#include "lib/base/text.h"

namespace pen::anvil {
namespace {

constexpr char kBetween = '\0';  // is in no tenant and no address
constexpr std::size_t kMostKey = 511;
constexpr std::int64_t kDay = 86'400;

/// Counts a day once. True: it is a new one.
bool count(std::uint32_t& days, std::int64_t& last, std::int64_t today) {
  if (last == today) return false;
  last = today;
  ++days;
  return true;
}

}  // namespace

bool SuppressionRecord::take_in() {
  if (state > State::removed || !ipc::suppression::is_reason(reason)) return false;
  text = printable(text, ipc::suppression::kMostText);
  return true;
}

std::string suppression_key(std::string_view tenant, std::string_view address) {
  if (!address.contains('@') || address.contains(kBetween) || tenant.contains(kBetween)) return {};
  std::string key = to_lower(tenant);
  key += kBetween;
  key += idn::address_key(std::string(address));
  return key.size() > kMostKey ? std::string() : key;
}

std::pair<std::string_view, std::string_view> suppression_names(std::string_view key) {
  const auto at = key.find(kBetween);
  if (at == key.npos) return {};
  return {key.substr(0, at), key.substr(at + 1)};
}

ipc::suppression::Entry entry_of(std::string_view key, SuppressionRecord record) {
  const auto [tenant, address] = suppression_names(key);
  return {.tenant = std::string(tenant),
          .address = std::string(address),
          .listed = record.state == SuppressionRecord::State::listed,
          .reason = record.reason,
          .text = std::move(record.text),
          .changed = unix_seconds(record.changed),
          .expires = record.expires,
          .days = std::max(record.bounce_days, record.returned_days)};
}

SuppressionVerdict judged_after(const std::optional<SuppressionRecord>& known, const ipc::suppression::Failure& failure,
                                const SuppressionRules& rules, WallTime now) {
  using State = SuppressionRecord::State;
  using enum SuppressionReason;
  const std::int64_t at = unix_seconds(now);
  const seconds time = failure.reason == bounce      ? rules.bounce_time
                       : failure.reason == returned  ? rules.returned_time
                       : failure.reason == complaint ? rules.complaint_time
                                                     : seconds(0);
  SuppressionVerdict out;
  const bool holds = known && known->state != State::removed && known->holds(now);
  if (holds) out.record = *known;
  if (time.count() == 0) return out;
  SuppressionRecord& r = out.record;
  const bool here = failure.reason == bounce;
  // No notice proves that its recipients were in a mail from here.
  const bool sure = failure.certain && failure.reason != returned;
  const bool by_strangers = !here && !sure;
  const bool new_day =
      here ? count(r.bounce_days, r.bounce_day, at / kDay) : count(r.returned_days, r.returned_day, at / kDay);
  const bool enough = sure || (here ? r.bounce_days >= rules.bounce_days : r.returned_days >= rules.returned_days);
  if (r.state == State::listed && holds) {
    // Mail of exempt senders goes on failing: the list keeps its first word, and no end comes nearer. A complaint says
    // more than a bounce.
    if (!enough || r.reason == order || r.expires == 0) return out;
    const std::int64_t end = at + time.count();
    const bool stronger = failure.reason == complaint && r.reason != complaint;
    if (!stronger && (end <= r.expires || !new_day)) return out;
    r.expires = std::max(r.expires, end);
    r.by_strangers = r.by_strangers && by_strangers;
    if (stronger) {
      r.reason = complaint;
      r.text = printable(failure.text, ipc::suppression::kMostText);
    }
    r.changed = now;
    out.changed = true;
    return out;
  }
  if (!new_day && !enough) return out;
  r.state = enough ? State::listed : State::watched;
  r.reason = failure.reason;
  r.changed = now;
  r.expires = at + (enough ? time : rules.count_time).count();
  r.text = printable(failure.text, ipc::suppression::kMostText);
  r.by_strangers = by_strangers;
  out.changed = true;
  out.added = enough;
  return out;
}

}  // namespace pen::anvil
