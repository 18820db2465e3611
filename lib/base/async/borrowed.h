#pragma once
/// Runs work on the handler pool that uses objects of the waiting coroutine.
///
/// Use:     const auto taken = co_await run_borrowing(pool, [&] { return scanner.feed(piece, content); });
/// Rules:   nothing else touches these objects until the work has ended. If the waiting coroutine is destroyed first,
///          its destructor waits for work that has begun, and work that has not begun is never done. So the work must
///          be short.
/// Thread:  called in the loop's thread.
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "lib/base/async/handler_pool.h"

namespace pen::async {
namespace detail {

/// Whether the owner still lives, and whether the work is running.
class Borrowing {
 public:
  bool begin() {
    const std::lock_guard lock(mutex_);
    going_on_ = wanted_;
    return wanted_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    going_on_ = false;
    ended_.notify_all();
  }
  void give_up() {
    std::unique_lock lock(mutex_);
    wanted_ = false;
    ended_.wait(lock, [this] { return !going_on_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool wanted_ = true;
  bool going_on_ = false;
};

struct BorrowingOwner {
  std::shared_ptr<Borrowing> state = std::make_shared<Borrowing>();
  BorrowingOwner() = default;
  ~BorrowingOwner() { state->give_up(); }
  BorrowingOwner(const BorrowingOwner&) = delete;
  BorrowingOwner& operator=(const BorrowingOwner&) = delete;
};

}  // namespace detail

template <class F, class R = std::invoke_result_t<F&>>
Task<R> run_borrowing(HandlerPool& pool, F work) {
  const detail::BorrowingOwner owner;
  auto result = co_await pool.run([state = owner.state, &work]() -> std::optional<R> {
    if (!state->begin()) return std::nullopt;
    std::optional<R> made = work();
    state->end();
    return made;
  });
  co_return *std::move(result);
}

}  // namespace pen::async
