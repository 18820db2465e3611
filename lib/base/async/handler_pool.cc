#include "lib/base/async/handler_pool.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/base/async/sync.h"

namespace pen::async {
namespace {

struct Job {
  std::function<void()> work;
  detail::Waiter* waiter = nullptr;  // the loop's thread only; null when nobody waits any longer
};

/// Waits for the job; withdraws from it when destroyed.
struct JobAwaiter {
  Job& job;
  detail::Waiter waiter;
  ~JobAwaiter() { job.waiter = nullptr; }
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> h) {
    waiter.suspend(h, {});
    job.waiter = &waiter;
  }
  void await_resume() const {}
};

}  // namespace

struct HandlerPool::Impl {
  Impl(Loop& l, std::size_t room_in) : loop(l), room(l, room_in) {}

  Loop& loop;
  Semaphore room;  // places for jobs that wait or run

  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  std::deque<std::shared_ptr<Job>> queue;
  std::vector<std::shared_ptr<Job>> finished;
  bool stopping = false;

  std::vector<std::thread> threads;

  void serve(const std::weak_ptr<Impl>& self) {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stopping || !queue.empty(); });
      if (stopping) return;
      std::shared_ptr<Job> job = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      job->work();
      job->work = nullptr;
      lock.lock();
      const bool first = finished.empty();
      finished.push_back(std::move(job));
      if (first) {
        loop.post_from_thread([self] {
          if (auto impl = self.lock()) impl->collect();
        });
      }
    }
  }
  void collect() {
    std::vector<std::shared_ptr<Job>> batch;
    {
      const std::lock_guard lock(mutex);
      batch.swap(finished);
    }
    for (const auto& job : batch) {
      loop.unhold();
      room.release();
      if (job->waiter) std::exchange(job->waiter, nullptr)->settle(detail::Waiter::Outcome::done);
    }
  }
};

HandlerPool::HandlerPool(Loop& loop, std::size_t threads, std::size_t queue)
    : impl_(std::make_shared<Impl>(loop, threads + queue)) {
  const std::weak_ptr<Impl> self = impl_;
  for (std::size_t i = 0; i < threads; ++i) {
    impl_->threads.emplace_back([impl = impl_.get(), self] { impl->serve(self); });
  }
}

HandlerPool::~HandlerPool() {
  std::size_t open = 0;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
    open = impl_->queue.size();
    impl_->queue.clear();
  }
  impl_->changed.notify_all();
  for (auto& thread : impl_->threads) thread.join();
  for (open += impl_->finished.size(); open > 0; --open) impl_->loop.unhold();
}

Task<void> HandlerPool::run_erased(std::function<void()> work) {
  const std::shared_ptr<Impl> impl = impl_;
  // Without deadline or cancel a wait for room can only succeed.
  PEN_CHECK((co_await impl->room.acquire()).has_value());
  auto job = std::make_shared<Job>(Job{std::move(work), nullptr});
  impl->loop.hold();
  {
    const std::lock_guard lock(impl->mutex);
    impl->queue.push_back(job);
  }
  impl->changed.notify_one();
  co_await JobAwaiter{*job, detail::Waiter(impl->loop)};
}

std::size_t HandlerPool::waiting() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->queue.size();
}

}  // namespace pen::async
