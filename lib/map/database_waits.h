#pragma once
/// Waits of drivers whose calls block, and of connections in steps that are asked in a thread.
///
/// Use:     Report ask(const Lookup& lookup) override { return ask_by_steps(*this, lookup); }
///          if (!wait_for(fd, POLLIN, lookup.deadline)) … timed out
/// Thread:  any; blocks.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "lib/map/database_driver.h"

namespace pen::map::database {

/// The time that is left, in whole units and at least one: libraries take 0 for "no limit".
template <class Unit>
int left_until(SteadyTime deadline) {
  const auto left = std::chrono::ceil<Unit>(deadline - system_clock().now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 1, 1'000'000));
}

/// Whether the socket is ready before the deadline.
inline bool wait_for(int fd, short events, SteadyTime deadline) {
  for (;;) {
    if (system_clock().now() >= deadline) return false;
    pollfd p{fd, events, 0};
    const int n = ::poll(&p, 1, left_until<milliseconds>(deadline));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

/// A question in steps, for a thread that waits.
inline Report ask_by_steps(Connection& connection, const Lookup& lookup) {
  auto report = connection.begin(lookup);
  while (!report) {
    const auto [fd, write] = connection.waits();
    if (!wait_for(fd, write ? POLLOUT : POLLIN, lookup.deadline)) return {Outcome::timed_out, "", false};
    report = connection.step(lookup);
  }
  return *std::move(report);
}

}  // namespace pen::map::database
