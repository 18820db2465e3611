/// How many connections to a host pay: where more of them do not bring more messages per second, fewer do.
///
/// A host may work on a few messages at a time whatever the connections, or the slower the more there are. That shows
/// only in comparison: so many results in how much time, with more and with fewer connections, while all are busy and
/// jobs wait. A trial of half as many costs half of the throughput where the host does scale; it is made when a
/// hundred times as many jobs wait as that may cost, and hosts that are quick are left alone. What is found is kept
/// in destdb; after ceiling_time half as many more are tried when there is work for them. Never fewer than
/// initial_destination_concurrency, with which Postfix begins too.
#include <algorithm>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

namespace {
constexpr milliseconds kQuick{20};   // a job; connections to such hosts cost nobody much
constexpr std::uint32_t kUsual = 5;  // initial_destination_concurrency where none is set
constexpr std::size_t kResults = 3;  // of each connection, for a measure
constexpr std::size_t kCost = 100;   // times as many jobs wait as a trial may cost
constexpr double kAsMuch = 0.9;      // the share that fewer connections must keep
}  // namespace

std::uint32_t Model::paying_limit(const Destination& d) {
  return d.yield.tried > 0 ? d.yield.tried : d.facts.paying_connections;
}

void Model::learn_what_pays(Destination& d, std::size_t number) {
  Yield& y = d.yield;
  const auto n = static_cast<std::uint32_t>(d.connections.size());
  const bool busy = number > 0 && expected(d) >= kQuick && d.holding == n &&
                    std::all_of(d.connections.begin(), d.connections.end(), [this](const Connection* c) {
                      return c->state == Connection::State::open && (!c->handed.empty() || c->last_done == now);
                    });
  if (number == 0 && y.tried > 0) settle_paying(d, y.before);  // nothing was found out
  if (!busy || n != y.connections) {
    y.since = now;
    y.connections = n;
    y.results = 0;
    return;
  }
  // The first of each tell of what was before.
  if (++y.results == n) y.since = now;
  if (y.results < (kResults + 1) * n || now == y.since) return;
  const double rate = static_cast<double>(y.results - n) / std::chrono::duration<double>(now - y.since).count();
  y.since = now;
  y.results = n;
  if (y.tried == 0) {
    y.rate = rate;
    if (wall >= d.facts.paying_until) try_other(d, n, number);
  } else if (n != y.tried) {
    return;  // it is not there yet
  } else if (y.tried < y.compared) {
    if (rate < kAsMuch * y.rate) return settle_paying(d, y.before);
    y.rate = std::max(rate, y.rate);
    d.facts.paying_connections = y.before = n;
    y.tried = 0;
    d.facts.paying_until = wall + options.ceiling_time;
    try_other(d, n, number);
    if (y.tried == 0) settle_paying(d, n);
  } else {
    const double more = static_cast<double>(n) / y.compared - 1;
    settle_paying(d, rate >= y.rate * (1 + more / 2) ? n : y.before);
    if (d.facts.paying_connections == n) d.facts.paying_until = wall;  // and perhaps more than that
  }
}

void Model::try_other(Destination& d, std::uint32_t n, std::size_t number) {
  Yield& y = d.yield;
  const std::uint32_t first = d.transport->limits.initial_concurrency;
  const std::uint32_t least = first > 0 ? first : kUsual;
  y.before = d.facts.paying_connections;
  y.compared = n;
  if (y.before > 0 && n >= y.before && wall >= d.facts.paying_until) {
    y.tried = n + std::max(1U, n / 2);
    unblock(d);
    return;
  }
  const std::uint32_t fewer = std::max(least, n / 2);
  const double begins = std::chrono::duration<double>(d.facts.connect_time + expected(d)).count();
  const double cost = 1.5 * n + y.rate * begins / 2;
  if (fewer >= n || static_cast<double>(number) < static_cast<double>(kCost) * cost) return;
  y.tried = fewer;
  give_back(d, fewer);
}

void Model::settle_paying(Destination& d, std::uint32_t paying) {
  const std::uint32_t most = d.transport->limits.destination_concurrency;
  d.yield.tried = 0;
  d.facts.paying_connections = most != 0 && paying >= most ? 0 : paying;
  d.facts.paying_until = wall + options.ceiling_time;
  remember(d);
  unblock(d);
}

}  // namespace pen::qmgr::scheduler
