#include "qmgr/scheduler/paying.h"

#include <algorithm>

namespace pen::qmgr::scheduler {

namespace {
constexpr milliseconds kQuick{20};   // for a job; connections to such hosts cost little
constexpr std::uint32_t kUsual = 5;  // initial_destination_concurrency where none is set
constexpr std::size_t kResults = 3;  // of each connection, for a measure
constexpr std::size_t kCost = 100;   // times as many jobs wait as a trial may cost
constexpr double kAsMuch = 0.9;      // the share that fewer connections must keep
}  // namespace

Paying::Step Paying::learn(Destination& d, std::size_t number) const {
  Yield& y = d.yield;
  const auto n = static_cast<std::uint32_t>(d.connections.size());
  const bool busy = number > 0 && speed_.expected(d) >= kQuick && d.holding == n &&
                    std::all_of(d.connections.begin(), d.connections.end(), [this](const Connection* c) {
                      return c->state == Connection::State::open && (!c->handed.empty() || c->last_done == clock_.now);
                    });
  Step step;
  if (number == 0 && y.tried > 0) step = settle(d, y.before);  // nothing was found out
  if (!busy || n != y.connections) {
    y.since = clock_.now;
    y.connections = n;
    y.results = 0;
    return step;
  }
  // The first results of each connection are about the time before.
  if (++y.results == n) y.since = clock_.now;
  if (y.results < (kResults + 1) * n || clock_.now == y.since) return step;
  const double rate = static_cast<double>(y.results - n) / std::chrono::duration<double>(clock_.now - y.since).count();
  y.since = clock_.now;
  y.results = n;
  if (y.tried == 0) {
    y.rate = rate;
    if (clock_.wall >= d.facts.paying_until) step = try_other(d, n, number);
  } else if (n != y.tried) {
    return step;  // it is not there yet
  } else if (y.tried < y.compared) {
    if (rate < kAsMuch * y.rate) return settle(d, y.before);
    y.rate = std::max(rate, y.rate);
    d.facts.paying_connections = y.before = n;
    y.tried = 0;
    d.facts.paying_until = clock_.wall + options_.ceiling_time;
    step = try_other(d, n, number);
    if (y.tried == 0) step = settle(d, n);
  } else {
    const double more = static_cast<double>(n) / y.compared - 1;
    step = settle(d, rate >= y.rate * (1 + more / 2) ? n : y.before);
    if (d.facts.paying_connections == n) d.facts.paying_until = clock_.wall;  // and perhaps more than that
  }
  return step;
}

Paying::Step Paying::try_other(Destination& d, std::uint32_t n, std::size_t number) const {
  Yield& y = d.yield;
  const std::uint32_t first = d.transport->limits.initial_concurrency;
  const std::uint32_t least = first > 0 ? first : kUsual;
  y.before = d.facts.paying_connections;
  y.compared = n;
  if (y.before > 0 && n >= y.before && clock_.wall >= d.facts.paying_until) {
    y.tried = n + std::max(1U, n / 2);
    return {.limit_rose = true, .keep = {}};
  }
  const std::uint32_t fewer = std::max(least, n / 2);
  const double begins = std::chrono::duration<double>(d.facts.connect_time + speed_.expected(d)).count();
  const double cost = 1.5 * n + y.rate * begins / 2;
  if (fewer >= n || static_cast<double>(number) < static_cast<double>(kCost) * cost) return {};
  y.tried = fewer;
  return {.limit_rose = false, .keep = fewer};
}

Paying::Step Paying::settle(Destination& d, std::uint32_t paying) const {
  const std::uint32_t most = d.transport->limits.destination_concurrency;
  d.yield.tried = 0;
  d.facts.paying_connections = most != 0 && paying >= most ? 0 : paying;
  d.facts.paying_until = clock_.wall + options_.ceiling_time;
  memory_.keep(d);
  return {.limit_rose = true, .keep = {}};
}

}  // namespace pen::qmgr::scheduler
