#include "lib/queue/destdb/groups.h"

#include <algorithm>
#include <tuple>

#include "lib/base/text.h"

namespace pen::destdb {

namespace {

constexpr std::size_t kMaxDsn = 20;
constexpr std::size_t kMaxReason = 1000;
constexpr std::size_t kMaxShown = 600;
constexpr std::uint32_t kMaxCount = 1'000'000;
constexpr std::uint8_t kMaxTrouble = 32;
constexpr microseconds kLongestMeasure = std::chrono::hours(24);

struct Failure {
  WallTime changed{};
  std::uint32_t failures = 0;
  WallTime next_retry{};
  std::uint8_t trouble = 0;
  std::string dsn, reason;
  PEN_FIELDS(changed, failures, next_retry, trouble, dsn, reason)
};
struct Ceiling {
  WallTime changed{};
  std::uint32_t tolerated_connections = 0;
  WallTime tolerated_until{};
  PEN_FIELDS(changed, tolerated_connections, tolerated_until)
};
struct Quota {
  WallTime changed{};
  std::uint32_t messages_per_connection = 0, closed_after = 0;
  WallTime messages_until{};
  PEN_FIELDS(changed, messages_per_connection, closed_after, messages_until)
};
struct State {
  WallTime changed{}, last_connect{}, last_close{};
  bool pipelining = false, chunking = false, starttls = false;
  std::uint64_t size_limit = 0;
  microseconds connect_time{0}, round_trip{0}, service_time{0};
  WallTime measured{};
  std::string shown;
  WallTime step_by_step_until{};
  WallTime clear_text_until{};
  PEN_FIELDS(changed, last_connect, last_close, pipelining, chunking, starttls, size_limit, connect_time, round_trip,
             service_time, measured, shown, step_by_step_until, clear_text_until)
};

auto failure_fields(const Facts& f) { return std::tie(f.failures, f.next_retry, f.trouble, f.dsn, f.reason); }
auto ceiling_fields(const Facts& f) { return std::tie(f.tolerated_connections, f.tolerated_until); }
auto quota_fields(const Facts& f) { return std::tie(f.messages_per_connection, f.closed_after, f.messages_until); }
auto state_fields(const Facts& f) {
  return std::tie(f.last_connect, f.last_close, f.pipelining, f.chunking, f.starttls, f.size_limit, f.connect_time,
                  f.round_trip, f.service_time, f.measured, f.shown, f.step_by_step_until, f.clear_text_until);
}

bool past(WallTime t, WallTime now) { return t <= now + kClockSlack; }
bool sane(microseconds t) { return t.count() >= 0 && t <= kLongestMeasure; }
bool sane_dsn(std::string_view dsn) {
  return dsn.size() <= kMaxDsn &&
         std::all_of(dsn.begin(), dsn.end(), [](char c) { return ascii_digit(c) || c == '.'; });
}

std::optional<DatedFacts> checked(const Failure& g, WallTime now) {
  const bool believed =
      g.failures <= kMaxCount && g.trouble <= kMaxTrouble && sane_dsn(g.dsn) && g.next_retry <= now + kLongestBackOff;
  if (!believed) return std::nullopt;
  DatedFacts out{{}, g.changed};
  out.facts.failures = g.failures;
  out.facts.next_retry = g.next_retry;
  out.facts.trouble = g.trouble;
  out.facts.dsn = g.dsn;
  out.facts.reason = printable(g.reason, kMaxReason);
  return out;
}
std::optional<DatedFacts> checked(const Ceiling& g, WallTime now) {
  if (g.tolerated_connections > kMaxCount || g.tolerated_until > now + kLongestBackOff) return std::nullopt;
  DatedFacts out{{}, g.changed};
  out.facts.tolerated_connections = g.tolerated_connections;
  out.facts.tolerated_until = g.tolerated_until;
  return out;
}
std::optional<DatedFacts> checked(const Quota& g, WallTime now) {
  if (g.messages_per_connection > kMaxCount || g.closed_after > kMaxCount || g.messages_until > now + kLongestBackOff)
    return std::nullopt;
  DatedFacts out{{}, g.changed};
  out.facts.messages_per_connection = g.messages_per_connection;
  out.facts.closed_after = g.closed_after;
  out.facts.messages_until = g.messages_until;
  return out;
}
std::optional<DatedFacts> checked(const State& g, WallTime now) {
  const bool believed = past(g.last_connect, now) && past(g.last_close, now) && past(g.measured, now) &&
                        sane(g.connect_time) && sane(g.round_trip) && sane(g.service_time) &&
                        g.shown.size() <= kMaxShown && g.step_by_step_until <= now + kLongestBackOff &&
                        g.clear_text_until <= now + kLongestBackOff;
  if (!believed) return std::nullopt;
  DatedFacts out{{}, g.changed};
  Facts& f = out.facts;
  f.last_connect = g.last_connect;
  f.last_close = g.last_close;
  f.pipelining = g.pipelining;
  f.chunking = g.chunking;
  f.starttls = g.starttls;
  f.size_limit = g.size_limit;
  f.connect_time = g.connect_time;
  f.round_trip = g.round_trip;
  f.service_time = g.service_time;
  f.measured = g.measured;
  f.shown = printable(g.shown, kMaxShown);
  f.step_by_step_until = g.step_by_step_until;
  f.clear_text_until = g.clear_text_until;
  return out;
}

template <class T>
std::optional<DatedFacts> taken(std::string_view bytes, WallTime now) {
  const auto g = decode<T>(bytes);
  if (!g || !past(g->changed, now)) return std::nullopt;
  return checked(*g, now);
}

}  // namespace

std::string_view group_name(Group g) {
  static constexpr std::string_view kNames[] = {"f", "c", "q", "s"};
  return kNames[static_cast<std::size_t>(g)];
}

std::optional<Group> group_of(std::string_view name) {
  for (const Group g : kAllGroups)
    if (group_name(g) == name) return g;
  return std::nullopt;
}

bool same_group(Group g, const Facts& a, const Facts& b) {
  switch (g) {
    case Group::failure:
      return failure_fields(a) == failure_fields(b);
    case Group::ceiling:
      return ceiling_fields(a) == ceiling_fields(b);
    case Group::quota:
      return quota_fields(a) == quota_fields(b);
    case Group::state:
      return state_fields(a) == state_fields(b);
  }
  return true;
}

void copy_group(Group g, const Facts& from, Facts& into) {
  switch (g) {
    case Group::failure:
      into.failures = from.failures;
      into.next_retry = from.next_retry;
      into.trouble = from.trouble;
      into.dsn = from.dsn;
      into.reason = from.reason;
      return;
    case Group::ceiling:
      into.tolerated_connections = from.tolerated_connections;
      into.tolerated_until = from.tolerated_until;
      return;
    case Group::quota:
      into.messages_per_connection = from.messages_per_connection;
      into.closed_after = from.closed_after;
      into.messages_until = from.messages_until;
      return;
    case Group::state:
      into.last_connect = from.last_connect;
      into.last_close = from.last_close;
      into.pipelining = from.pipelining;
      into.chunking = from.chunking;
      into.starttls = from.starttls;
      into.size_limit = from.size_limit;
      into.connect_time = from.connect_time;
      into.round_trip = from.round_trip;
      into.service_time = from.service_time;
      into.measured = from.measured;
      into.shown = from.shown;
      into.step_by_step_until = from.step_by_step_until;
      into.clear_text_until = from.clear_text_until;
      return;
  }
}

std::string encode_group(Group g, const Facts& f, WallTime changed) {
  std::string out(1, kGroupForm);
  switch (g) {
    case Group::failure:
      encode_to(out, Failure{changed, f.failures, f.next_retry, f.trouble, f.dsn.substr(0, kMaxDsn),
                             f.reason.substr(0, kMaxReason)});
      break;
    case Group::ceiling:
      encode_to(out, Ceiling{changed, f.tolerated_connections, f.tolerated_until});
      break;
    case Group::quota:
      encode_to(out, Quota{changed, f.messages_per_connection, f.closed_after, f.messages_until});
      break;
    case Group::state:
      encode_to(out, State{changed, f.last_connect, f.last_close, f.pipelining, f.chunking, f.starttls, f.size_limit,
                           f.connect_time, f.round_trip, f.service_time, f.measured, f.shown.substr(0, kMaxShown),
                           f.step_by_step_until, f.clear_text_until});
      break;
  }
  return out;
}

std::optional<DatedFacts> decode_group(Group g, std::string_view bytes, WallTime now) {
  if (bytes.empty() || bytes.size() > kMaxGroup || bytes.front() != kGroupForm) return std::nullopt;
  bytes.remove_prefix(1);
  switch (g) {
    case Group::failure:
      return taken<Failure>(bytes, now);
    case Group::ceiling:
      return taken<Ceiling>(bytes, now);
    case Group::quota:
      return taken<Quota>(bytes, now);
    case Group::state:
      return taken<State>(bytes, now);
  }
  return std::nullopt;
}

}  // namespace pen::destdb
