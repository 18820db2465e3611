#include "lib/base/async/sync.h"

#include "lib/base/async/spawned.h"

namespace pen::async {

using detail::Waiter;

void Event::set() {
  set_ = true;
  Waiter::settle_all(waiters_, Waiter::Outcome::done);
}

Gate::Gate(Loop& loop) : loop_(loop), empty_(loop) { empty_.set(); }

Gate::~Gate() {
  while (tasks_.linked()) detail::Spawned::of(*tasks_.next).abandon();
}

void Gate::spawn(std::string name, Task<void> task) {
  auto* spawned = detail::Spawned::start(
      loop_, std::move(name), std::move(task),
      [](void* gate) {
        auto& self = *static_cast<Gate*>(gate);
        if (--self.count_ == 0) self.empty_.set();
      },
      this);
  tasks_.push_back(spawned->in_gate);
  ++count_;
  empty_.reset();
}

Task<Result<void>> Gate::drained(Until until) { co_return co_await empty_.wait(until); }

std::vector<std::string> Gate::list() const {
  std::vector<std::string> lines;
  for (Link* l = tasks_.next; l != &tasks_; l = l->next) lines.push_back(detail::Spawned::of(*l).describe());
  return lines;
}

struct Semaphore::Awaiter {
  Semaphore& semaphore;
  Until until;
  Waiter waiter;

  bool await_ready() const { return semaphore.try_acquire(); }
  void await_suspend(std::coroutine_handle<> h) {
    semaphore.waiters_.push_back(waiter.queue_link);
    waiter.suspend(h, until);
  }
  Result<void> await_resume() {
    waiter.queue_link.unlink();  // the permit is taken
    return waiter.result();
  }
  // Destroyed between the grant and the resumption: pass the permit to the next waiter.
  ~Awaiter() {
    if (waiter.outcome() != Waiter::Outcome::done || !waiter.queue_link.linked()) return;
    waiter.queue_link.unlink();
    semaphore.release();
  }
};

Semaphore::~Semaphore() {
  while (granted_.linked()) granted_.next->unlink();
}

Task<Result<void>> Semaphore::acquire(Until until) { co_return co_await Awaiter{*this, until, Waiter(loop_)}; }

void Semaphore::release() {
  Waiter* w = Waiter::first(waiters_);
  if (!w) {
    ++free_;
    return;
  }
  w->settle(Waiter::Outcome::done);
  granted_.push_back(w->queue_link);
}

}  // namespace pen::async
