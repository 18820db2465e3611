/// How many jobs a connection is given at once, and when another connection pays.
///
/// A server serves the messages of one connection one after another, whatever was sent ahead: sending ahead saves round
/// trips, and only further connections save the server's own time. So two times are kept apart. A job that finds its
/// connection with nothing in hand takes the path's time and the server's; from one result of a flow to the next it
/// is the server's alone. The TCP handshake says what the path takes at least (a proxy near by may have answered it);
/// how long the server thought before its greeting or its reply to EHLO says nothing.
///
/// - A connection has as many jobs in hand as keep its peer busy for a round trip, and no more: what is in hand
///   cannot be given to another connection that falls free. The rest waits in the pool, where whoever is free first
///   takes it.
/// - Which connection has the last jobs: finish.cc. How many connections pay: paying.cc.
/// - A job waits on a connection only for as long as opening another one would take; the fewer workers are free, the
///   longer.
/// - Of a host that was never measured a connection has one job, or its share of what waits up to what a path as long
///   as the handshake says hides if the host is quick; two where there are as many, which tells the two times apart.
#include <algorithm>
#include <limits>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

namespace {
// A result's way to us and the next job's way to the program.
constexpr microseconds kHandling{1000};
// Jobs in hand for so long cost nobody much; quick peers are given work by the dozen.
constexpr milliseconds kTurn{20};
// What a job at a host that was never measured is taken for.
constexpr milliseconds kUnmeasured{5};
// To open a connection for less is never worth it.
constexpr milliseconds kLeastGain{5};
}  // namespace

microseconds Model::service_time(Connection& c, microseconds since_begun) {
  Destination& d = *c.destination;
  const microseconds least{1};  // 0: never measured
  const auto mean = [](microseconds old, microseconds fresh) {
    return old.count() == 0 ? fresh : (old * 7 + fresh) / 8;
  };
  const auto gap =
      c.last_done == kNever ? microseconds::max() : std::chrono::duration_cast<microseconds>(now - c.last_done);
  c.last_done = c.flows_since = now;
  // A measure of long ago says nothing.
  const microseconds old = measured_lately(d) ? d.facts.service_time : microseconds(0);
  if (since_begun <= gap) {  // the flow was dry
    d.dry_time = mean(d.dry_time, since_begun);
    return mean(old, std::max(since_begun - path(c), least));
  }
  if (d.dry_time.count() > 0) d.path = mean(d.path, std::max(d.dry_time - gap, c.round_trip));
  const microseconds each = std::max(std::min(gap, since_begun - path(c)), least);
  // What was measured before the two were told apart had the path's time in it.
  return std::exchange(d.told_apart, true) ? mean(old, each) : each;
}

std::size_t Model::fitting(const Connection& c) const {
  if (c.window <= 1) return c.window;
  const Destination& d = *c.destination;
  const microseconds each = d.facts.service_time;
  std::int64_t n = 1;
  if (each.count() > 0) {
    // (each + trip) / each, rounded up; but not for a fiftieth.
    const microseconds trip = path(c) + kHandling;
    n = (49 * (each + trip) + 50 * each - microseconds(1)) / (50 * each);
    n = std::max<std::int64_t>(n, kTurn / each);
  } else {
    n += c.round_trip / kUnmeasured;
  }
  if (each.count() == 0 || !d.told_apart) {
    const Share share = left_to_share(c);
    if (share.connections <= 1)
      n = c.window;  // nobody else could take them
    else if (each.count() == 0 && share.hosts > 1)
      n = 1;  // the others may be quicker by far
    else if (const auto its = static_cast<std::int64_t>(share.jobs / share.connections); each.count() == 0)
      n = std::min(std::max<std::int64_t>(n, 2), its);
    else
      n = std::max(n, std::min<std::int64_t>(2, its));
  }
  return static_cast<std::size_t>(std::clamp<std::int64_t>(n, 1, c.window));
}

Model::Share Model::left_to_share(const Connection& c) const {
  Share out{c.waiting + c.handed.size(), 0, 0};
  if (c.last_cluster == nullptr) return out;
  const Cluster& cluster = *c.last_cluster;
  out.jobs += cluster.pooled;
  const std::size_t usable = usable_level(cluster);
  if (usable == cluster.levels.size()) return out;
  for (const auto& m : cluster.levels[usable]) {
    if (dead(*m->destination)) continue;
    out.connections += limit_in_time(*m->destination);
    ++out.hosts;
  }
  return out;
}

bool Model::may_take(const Connection& c) const {
  if (c.spent() || must_pause(*c.destination)) return false;
  if (c.handed.empty()) return true;
  // Whether its worker had better go is asked now and then: it walks over the level.
  return c.handed.size() < fitting(c) && (c.done % 8 != 0 || worker_is_better_at(c) == nullptr) &&
         (c.last_cluster == nullptr || !leaves_to_others(c, *c.last_cluster, 0));
}

microseconds Model::worth_waiting(const Connection& c) const {
  const Transport& t = *c.destination->transport;
  const std::uint32_t free = t.free();
  if (free == 0) return options.backlog_time;
  // On one that is being opened the job waits as long for the peer as on a new one, but for the start that it has.
  const microseconds setup = c.state == Connection::State::opening
                                 ? std::chrono::duration_cast<microseconds>(now - c.opened_at)
                                 : c.destination->facts.connect_time;
  microseconds wait = std::max<microseconds>(setup, kLeastGain);
  if (t.limits.workers > 0) wait = wait * t.limits.workers / std::min(free, t.limits.workers);
  return std::min<microseconds>(wait, options.backlog_time);
}

bool Model::backlogged(const Connection& c) const {
  const std::size_t n = c.jobs();
  if (n >= options.backlog_threshold || (c.quota > 0 && c.done + n >= c.quota)) return true;
  if (n == 0) return false;
  const Destination& d = *c.destination;
  if (d.facts.service_time.count() == 0) {
    // Nobody knows. As many connections as a new host is given at first, while that takes nothing from others.
    const Transport& t = *d.transport;
    return t.limits.initial_concurrency > 0 &&
           (t.limits.workers == 0 || (t.free() > t.limits.workers / 2 && t.wanted_probes == 0));
  }
  return d.facts.service_time * static_cast<std::int64_t>(n) > worth_waiting(c);
}

void Model::spread(Connection& c) {
  Transport& t = *c.destination->transport;
  if (c.state != Connection::State::open || keeps_pace(*c.destination)) return;
  for (std::size_t n = c.waiting; n > 0 && c.waiting > 0 && backlogged(c); --n) {
    if (!t.up || draining || t.exclusive() || t.free() == 0) return;
    Job& j = *c.round.back()->waiting.back();
    const Cluster& cluster = *j.route->cluster;
    const std::size_t usable = usable_level(cluster);
    if (usable == cluster.levels.size()) return;
    const auto& level = cluster.levels[usable];
    if (std::none_of(level.begin(), level.end(),
                     [this](const auto& m) { return may_open(*m->destination) && session_possible(*m->destination); }))
      return;
    if (!options.fairness.allowed(j.message->party->concurrency, t.free())) return;
    unassign(j);
    schedule(j);
  }
}

}  // namespace pen::qmgr::scheduler
