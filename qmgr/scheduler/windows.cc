#include "qmgr/scheduler/windows.h"

#include <algorithm>
#include <limits>

namespace pen::qmgr::scheduler {

namespace {
// A result's way to us and the next job's way to the program.
constexpr microseconds kHandling{1000};
// Jobs in hand for so long cost little; quick peers get work by the dozen.
constexpr milliseconds kTurn{20};
// The time that is assumed for a job at a host that was never measured.
constexpr milliseconds kUnmeasured{5};
}  // namespace

std::size_t Windows::fitting(const Connection& c) const {
  if (c.window <= 1) return c.window;
  const Destination& d = *c.destination;
  const microseconds each = d.facts.service_time;
  // With PIPELINING alone the next job's commands hold up a result, and another connection is allowed with each.
  if (Speed::content_waits(d) && d.allowance > 0 && (each.count() == 0 || each > Speed::path(c))) return 1;
  std::int64_t n = 1;
  if (each.count() > 0) {
    // (each + trip) / each, rounded up; but not for a fiftieth. To hide our own part alone nothing is sent ahead:
    // before it the flow says RSET, which costs the peer as much; nor to a peer that takes one command at a time.
    const bool ahead = d.facts.pipelining || d.facts.round_trip.count() == 0;
    const microseconds path = ahead ? Speed::path(c) : microseconds(0);
    const microseconds trip = 50 * path < each ? microseconds(0) : path + kHandling;
    n = (49 * (each + trip) + 50 * each - microseconds(1)) / (50 * each);
    n = std::max<std::int64_t>(n, kTurn / each);
  } else {
    n += c.round_trip / kUnmeasured;
  }
  if (each.count() == 0 || !d.told_apart) {
    const Share share = left_to_share(c);
    if (share.connections <= 1)
      n = c.window;  // no other connection could take them
    else if (each.count() == 0 && share.hosts > 1)
      n = 1;  // the others may be quicker by far
    else if (const auto its = static_cast<std::int64_t>(share.jobs / share.connections); each.count() == 0)
      n = std::min(std::max<std::int64_t>(n, 2), its);
    else
      n = std::max(n, std::min<std::int64_t>(2, its));
  }
  return static_cast<std::size_t>(std::clamp<std::int64_t>(n, 1, c.window));
}

Windows::Share Windows::left_to_share(const Connection& c) const {
  Share out{c.waiting + c.handed.size(), 0, 0};
  if (c.last_cluster == nullptr) return out;
  const Cluster& cluster = *c.last_cluster;
  out.jobs += cluster.pooled;
  const std::size_t usable = back_off_.usable_level(cluster);
  if (usable == cluster.levels.size()) return out;
  for (const auto& m : cluster.levels[usable]) {
    if (back_off_.dead(*m->destination)) continue;
    out.connections += limits_.connections_in_time(*m->destination);
    ++out.hosts;
  }
  return out;
}

bool Windows::may_take(const Connection& c) const {
  if (c.spent() || rate_delay_.must_pause(*c.destination)) return false;
  if (c.handed.empty()) return true;
  // Whether its worker should go is asked only now and then: the question walks over the level.
  return c.handed.size() < fitting(c) && (c.done % 8 != 0 || finish_.worker_is_better_at(c) == nullptr) &&
         (c.last_cluster == nullptr || !finish_.leaves_to_others(c, *c.last_cluster, 0));
}

microseconds Windows::worth_waiting(const Connection& c) const {
  const Transport& t = *c.destination->transport;
  const std::uint32_t free = t.free();
  if (free == 0) return options_.backlog_time;
  microseconds wait = finish_.worth_opening(*c.destination);
  if (t.limits.workers > 0) wait = wait * t.limits.workers / std::min(free, t.limits.workers);
  return std::min<microseconds>(wait, options_.backlog_time);
}

bool Windows::backlogged(const Connection& c, std::size_t pooled) const {
  const std::size_t n = c.jobs();
  if (n >= options_.backlog_threshold || (c.quota > 0 && c.done + n >= c.quota)) return true;
  if (n == 0) return false;
  if (c.stuck) return true;
  const Destination& d = *c.destination;
  if (d.facts.service_time.count() == 0) {
    // Not known. As many connections as a new host gets at first, while that takes nothing from others.
    const Transport& t = *d.transport;
    return t.limits.initial_concurrency > 0 &&
           (t.limits.workers == 0 || (t.free() > t.limits.workers / 2 && t.wanted_probes == 0));
  }
  return Speed::pace(d) * static_cast<std::int64_t>(n + pooled) > worth_waiting(c);
}

}  // namespace pen::qmgr::scheduler
