#pragma once
/// Helpers that tests of coroutines share: running one to its end, by the real clock or by a test's, and a connected
/// pair of streams.
#include <sys/socket.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <optional>
#include <thread>

#include "lib/base/async/listener.h"

namespace pen::async::testing {

template <class T>
Task<void> store_result(Task<T> task, std::optional<T>* out) {
  out->emplace(co_await task);
}
inline Task<void> store_done(Task<void> task, bool* out) {
  co_await task;
  *out = true;
}

/// Runs the loop until the task has ended and returns its value.
template <class T>
T run(Loop& loop, Task<T> task) {
  std::optional<T> out;
  loop.spawn("test", store_result(std::move(task), &out));
  for (int i = 0; !out && i < 100000; ++i) loop.run_once(milliseconds(50));
  BOOST_REQUIRE_MESSAGE(out.has_value(), "the task never ended");
  return std::move(*out);
}
inline void run(Loop& loop, Task<void> task) {
  bool done = false;
  loop.spawn("test", store_done(std::move(task), &done));
  for (int i = 0; !done && i < 100000; ++i) loop.run_once(milliseconds(50));
  BOOST_REQUIRE_MESSAGE(done, "the task never ended");
}

/// Lets the time of a ManualClock pass while threads do their part, until done() says so.
template <class Clock, class Done>
void pass_until(Loop& loop, Clock& clock, Done done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!done() && std::chrono::steady_clock::now() < end) {
    loop.run_once();
    std::this_thread::yield();
    clock.advance(milliseconds(1));
  }
  BOOST_REQUIRE_MESSAGE(done(), "it never came to that");
}
/// The same until the task has ended.
template <class Clock>
void run_in_time(Loop& loop, Clock& clock, Task<void> task) {
  bool done = false;
  loop.spawn("test", store_done(std::move(task), &done));
  pass_until(loop, clock, [&] { return done; });
}

struct Pair {
  Stream a, b;
};
inline Pair stream_pair(Loop& loop) {
  int fds[2];
  BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  return {Stream(loop, Fd(fds[0])), Stream(loop, Fd(fds[1]))};
}

}  // namespace pen::async::testing
