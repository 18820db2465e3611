#pragma once
/// The waiting primitives inside one loop: Event, Gate, Semaphore. There are no others.
///
/// Thread:  the loop's only. See handler_pool.h for work on other threads.
#include <string>
#include <vector>

#include "lib/base/async/loop.h"

namespace pen::async {

/// A flag to wait for. set() wakes all waiters and stays set until reset().
class Event {
 public:
  explicit Event(Loop& loop) : loop_(loop) {}
  void set();
  void reset() { set_ = false; }
  bool is_set() const { return set_; }
  /// Returns success at once when the event is set, else as soon as set() is called. Errors: timed_out, cancelled.
  struct Awaiter;
  Awaiter wait(Until until = {});

 private:
  Loop& loop_;
  Link waiters_;
  bool set_ = false;
};

struct Event::Awaiter {
  Event& event;
  Until until;
  detail::Waiter waiter;
  bool await_ready() const { return event.set_; }
  void await_suspend(std::coroutine_handle<> h) {
    event.waiters_.push_back(waiter.queue_link);
    waiter.suspend(h, until);
  }
  Result<void> await_resume() const {
    if (waiter.outcome() == detail::Waiter::Outcome::pending) return {};  // the event was set already
    return waiter.result();
  }
};
inline Event::Awaiter Event::wait(Until until) { return Awaiter{*this, until, detail::Waiter(loop_)}; }

/// Owns spawned tasks so that their owner can cancel and outlive them.
///
/// Use:     gate.spawn("session", …) ; … gate.cancel().raise(); co_await gate.drained();
/// Destroying a Gate destroys the tasks that still live.
class Gate {
 public:
  explicit Gate(Loop& loop);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  /// Starts through the ready list. Tasks should pass cancel() in their waits.
  void spawn(std::string name, Task<void> task);
  Cancel& cancel() { return cancel_; }
  std::size_t size() const { return count_; }
  /// Waits until no task lives.
  Task<Result<void>> drained(Until until = {});
  std::vector<std::string> list() const;

 private:
  Loop& loop_;
  Cancel cancel_;
  Event empty_;
  Link tasks_;
  std::size_t count_ = 0;
};

/// Counted permits, given out in the order of the requests.
class Semaphore {
 public:
  Semaphore(Loop& loop, std::size_t permits) : loop_(loop), free_(permits) {}
  ~Semaphore();
  std::size_t free() const { return free_; }
  bool try_acquire() {
    if (free_ == 0 || waiters_.linked()) return false;
    --free_;
    return true;
  }
  Task<Result<void>> acquire(Until until = {});
  void release();

 private:
  struct Awaiter;
  Loop& loop_;
  Link waiters_;
  Link granted_;  // settled with a permit, not yet resumed
  std::size_t free_;
};

}  // namespace pen::async
