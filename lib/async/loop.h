#pragma once
/// The event loop of a process: ready list, timer wheel, spawned tasks, wake-ups from other threads.
///
/// Use:     Loop loop; loop.spawn("accept", accept_all(loop, …)); loop.run();
///          co_await loop.sleep(seconds(1), until);
///          Until limits a wait: {.deadline = loop.now() + minutes(5), .cancel = &session_cancel}.
/// Rules:   everything here belongs to the loop's thread, except post_from_thread() and stop_from_thread().
///          Wake-ups from inside go through the ready list: nobody's code runs inside somebody else's set() or send().
///          Each awaiter is an intrusive node in the coroutine frame; destroying the frame unlinks it. When a wake-up,
///          a cancel and a deadline meet in one turn, the first one wins and the wait has exactly one result.
/// Time:    now() is read once per turn. Deadlines are lazy: one wheel of 16 ms ticks, re-arming later costs a
///          comparison (the wheel entry is moved only when it fires early).
/// Signals: on_signal() delivers in the loop.
#include <coroutine>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/async/error.h"
#include "lib/async/task.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen::async {

class Loop;
class Cancel;

/// How long to wait at most, and who may call it off.
struct Until {
  SteadyTime deadline = kNever;
  Cancel* cancel = nullptr;
};

namespace detail {

/// Doubly linked intrusive list node; unlinks itself when destroyed.
struct Link {
  Link* prev = this;
  Link* next = this;
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() { unlink(); }
  bool linked() const { return next != this; }
  void unlink() {
    prev->next = next;
    next->prev = prev;
    prev = next = this;
  }
  /// Puts node at the tail of the list whose head is *this.
  void push_back(Link& node) {
    node.unlink();
    node.prev = prev;
    node.next = this;
    prev->next = &node;
    prev = &node;
  }
};

/// One wait of one coroutine. Its four nodes sit in: what is waited for, the timer wheel, the cancel, the ready list.
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
  bool settled() const { return outcome_ != Outcome::pending; }
  Outcome outcome() const { return outcome_; }
  /// done: success; otherwise the matching WaitError.
  Result<void> result() const;
  Loop& loop() const { return loop_; }

  struct Node : Link {
    Waiter* owner = nullptr;
  };
  Node queue_link;  // in the list of what is waited for

 private:
  friend class pen::async::Loop;
  friend class pen::async::Cancel;
  Loop& loop_;
  std::coroutine_handle<> handle_;
  Node wheel_link_;
  Node cancel_link_;
  Node ready_link_;
  SteadyTime deadline_ = kNever;
  Outcome outcome_ = Outcome::pending;
};

}  // namespace detail

/// Calls off every wait that was given it, now and later, until reset. Destroying it leaves the waits alone.
class Cancel {
 public:
  void raise();
  bool raised() const { return raised_; }
  void reset() { raised_ = false; }

 private:
  friend class detail::Waiter;
  detail::Link waiters_;
  bool raised_ = false;
};

class Loop {
 public:
  explicit Loop(const Clock& clock = system_clock());
  ~Loop();  // destroys spawned tasks that still live
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Runs until stop(), or until nothing is left that could happen.
  void run();
  /// One turn: ready list, then I/O (waiting at most max_wait), then timers. For tests and fuzzers.
  void run_once(milliseconds max_wait = milliseconds(0));
  void stop();
  void stop_from_thread();
  /// Time of this turn.
  SteadyTime now() const;
  const Clock& clock() const;

  /// Runs a task detached, by name (shown by list_tasks); it starts in this turn or the next, not inside this call.
  void spawn(std::string name, Task<void> task);
  std::size_t spawned() const;
  /// One line per spawned task: name and age. For SIGUSR1.
  std::vector<std::string> list_tasks() const;

  /// Runs fn in the loop's next turn / at the time given. A callback timer is cancelled by destroying its handle.
  void post(std::move_only_function<void()> fn);
  void post_from_thread(std::move_only_function<void()> fn);
  class Timer;
  std::unique_ptr<Timer> call_at(SteadyTime when, std::move_only_function<void()> fn);
  /// Runs fn at the end of each turn in which it was asked for (end_of_turn() marks it once): batching of output.
  void at_end_of_turn(detail::Link& node, void (*run)(detail::Link&));

  /// Suspends for a duration. Result: success after the time, or cancelled. until.deadline earlier than that: timed_out.
  Task<Result<void>> sleep(std::chrono::nanoseconds time, Until until = {});
  /// Lets every other ready task run first.
  Task<void> yield();

  /// Calls fn(signo) in the loop for each arrival. One handler per signal.
  Result<void> on_signal(int signo, std::function<void(int)> fn);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  friend class detail::Waiter;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pen::async
