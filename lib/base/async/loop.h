#pragma once
/// The event loop of a process: ready list, timer wheel, spawned tasks, wake-ups from other threads.
///
/// Use:     Loop loop; loop.spawn("accept", accept_all(loop, …)); loop.run();
///          co_await loop.sleep(seconds(1), until);
///          Until limits a wait: {.deadline = loop.now() + minutes(5), .cancel = &session_cancel}.
/// Rules:   everything here belongs to the loop's thread, except post_from_thread() and stop_from_thread().
///          Wake-ups from inside go through the ready list: set() and send() never run the code of a waiter.
///          Each awaiter is an intrusive node in the coroutine frame; destroying the frame unlinks it. When a wake-up,
///          a cancel and a deadline meet in one turn, the first one wins and the wait has exactly one result.
/// Time:    now() is read once per turn. Deadlines are lazy: one wheel of 16 ms ticks, re-arming later costs a
///          comparison (the wheel entry is moved only when it fires early).
/// Signals: on_signal() delivers in the loop, in the turn after the arrival, with that turn's time.
#include <coroutine>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/async/error.h"
#include "lib/base/async/task.h"
#include "lib/base/async/wheel.h"
#include "lib/base/link.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen::async {

class Loop;
class Cancel;

/// How long to wait at most, and which Cancel can end the wait earlier.
struct Until {
  SteadyTime deadline = kNever;
  Cancel* cancel = nullptr;
};

namespace detail {

/// A coroutine on the ready list.
struct ReadyNode : Link {
  std::coroutine_handle<> handle;
};

/// Something to do at the end of the turn (Loop::at_end_of_turn). The node may be destroyed at any time.
struct EndOfTurn : Link {
  void (*run)(EndOfTurn&) = nullptr;
};

/// One wait of one coroutine. Its nodes are in four lists: the awaited object's, the timer wheel, the cancel's, the
/// ready list.
class Waiter {
 public:
  enum class Outcome : unsigned char { pending, done, timed_out, cancelled, closed };

  explicit Waiter(Loop& loop) : loop_(loop) {}
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter() = default;  // the links withdraw it everywhere

  /// Called in await_suspend after queue_link was linked: arms deadline and cancel.
  void suspend(std::coroutine_handle<> h, const Until& until);
  /// First outcome wins; puts the coroutine on the ready list. No effect when already settled.
  void settle(Outcome outcome);
  /// Called instead of suspend() when the wait is over already but others come first: resumes in the next turn.
  void defer(std::coroutine_handle<> h);
  bool settled() const { return outcome_ != Outcome::pending; }
  Outcome outcome() const { return outcome_; }
  /// done: success; otherwise the matching WaitError.
  Result<void> result() const;
  Loop& loop() const { return loop_; }

  struct Node : Link {
    explicit Node(Waiter* o) : owner(o) {}
    Waiter* owner;
  };
  Node queue_link{this};  // in the list of the awaited object
  /// The waiter at the head of a list of queue_links, or null.
  static Waiter* first(const Link& list) { return list.linked() ? static_cast<Node*>(list.next)->owner : nullptr; }
  /// The first one of a list, if there is one, gets its outcome; or all do.
  static void settle_first(const Link& list, Outcome outcome) {
    if (Waiter* w = first(list)) w->settle(outcome);
  }
  static void settle_all(const Link& list, Outcome outcome) {
    while (Waiter* w = first(list)) w->settle(outcome);
  }

 private:
  friend class pen::async::Loop;
  friend class pen::async::Cancel;
  struct DeadlineNode : WheelNode {
    Waiter* owner = nullptr;
  };
  Loop& loop_;
  DeadlineNode wheel_link_;
  Node cancel_link_{this};
  ReadyNode ready_link_;
  Outcome outcome_ = Outcome::pending;
};

}  // namespace detail

/// Cancels every wait that was given this Cancel, now and later, until reset. Destroying it leaves the waits alone.
class Cancel {
 public:
  void raise();
  bool raised() const { return raised_; }
  void reset() { raised_ = false; }

 private:
  friend class detail::Waiter;
  Link waiters_;
  bool raised_ = false;
};

class Loop {
 public:
  explicit Loop(const Clock& clock = system_clock());
  ~Loop();  // destroys spawned tasks that still live
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Runs until stop(), or until nothing is left to wait for.
  void run();
  /// One turn: ready list, then I/O (waiting at most max_wait), then timers. For tests and fuzzers.
  void run_once(milliseconds max_wait = milliseconds(0));
  void stop();
  void stop_from_thread();
  /// Time of this turn.
  SteadyTime now() const;
  const Clock& clock() const;

  /// Runs a task detached, by name (list_tasks shows it). The task starts in this turn or the next, not inside this
  /// call.
  void spawn(std::string name, Task<void> task);
  std::size_t spawned() const;
  /// One line per spawned task: name and age. For SIGUSR1.
  std::vector<std::string> list_tasks() const;

  /// Runs fn in the loop's next turn, or at the given time. Destroying a timer's handle cancels the timer.
  void post(std::move_only_function<void()> fn);
  void post_from_thread(std::move_only_function<void()> fn);
  class Timer;
  struct TimerDelete {
    void operator()(Timer* timer) const;
  };
  using TimerHandle = std::unique_ptr<Timer, TimerDelete>;
  TimerHandle call_at(SteadyTime when, std::move_only_function<void()> fn);
  /// Runs node.run once at the end of this turn, however often it was asked for in the turn: for batching output.
  void at_end_of_turn(detail::EndOfTurn& node);

  /// Suspends for a duration. Errors: cancelled; timed_out, when until.deadline comes first.
  Task<Result<void>> sleep(std::chrono::nanoseconds time, Until until = {});
  /// Lets every other ready task run first.
  Task<void> yield();
  /// Lets I/O happen and every other ready task run first.
  Task<void> next_turn();

  /// Calls fn(signo) in the loop for each arrival. One handler per signal.
  Result<void> on_signal(int signo, std::function<void(int)> fn);

  // For the other parts of lib/base/async.
  struct Impl;
  Impl& impl() { return *impl_; }
  void make_ready(detail::ReadyNode& node);            // resumed in this turn
  void make_ready_next_turn(detail::ReadyNode& node);  // resumed after the next look at I/O
  void* native();                                      // uv_loop_t
  std::uint64_t turn() const;                          // number of the current turn
  void hold();                                         // work elsewhere will come back: run() must not return
  void unhold();

 private:
  friend class detail::Waiter;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pen::async
