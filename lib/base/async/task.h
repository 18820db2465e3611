#pragma once
/// Task<T>: a lazy coroutine. It runs when awaited (or spawned by a Loop or a Gate) and yields one T.
///
/// Use:     Task<Result<void>> serve(Stream& s) { …; co_return {}; }      auto r = co_await serve(s);
/// Rules:   move-only; await it at most once. A spawned coroutine takes values, never references or views to what
///          may die before it; no capturing lambda coroutines. Destroying a Task at any suspension destroys its
///          frame and so withdraws whatever it waits for.
/// Stack:   a child is started inside await_suspend, which reports whether it has already ended: a million awaits
///          that complete at once keep the stack flat in every build, without symmetric transfer.
/// Thread:  one loop, one thread. Frames come from a per-thread size-class free list; live_frames() counts them and
///          must be back at zero when a test ends.
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "lib/base/check.h"

namespace pen::async {

/// Coroutine frames alive in this thread.
std::size_t live_frames();
void* allocate_frame(std::size_t size);
void release_frame(void* frame, std::size_t size) noexcept;

template <class T = void>
class Task;

namespace detail {

struct PromiseBase {
  enum class Stage : unsigned char { lazy, starting, suspended, ended };

  static void* operator new(std::size_t size) { return allocate_frame(size); }
  static void operator delete(void* frame, std::size_t size) noexcept { release_frame(frame, size); }

  struct Final {
    bool await_ready() const noexcept { return false; }
    template <class P>
    void await_suspend(std::coroutine_handle<P> self) const noexcept {
      PromiseBase& p = self.promise();
      const bool wake = p.stage == Stage::suspended;
      p.stage = Stage::ended;
      // Last act: the parent may destroy this frame before resume() returns.
      if (wake && p.parent) p.parent.resume();
    }
    void await_resume() const noexcept {}
  };

  std::suspend_always initial_suspend() const noexcept { return {}; }
  Final final_suspend() const noexcept { return {}; }
  // We do not use exceptions. One that escapes is a bug of ours or a lack of memory: the process dies and recovers.
  [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }

  std::coroutine_handle<> parent;
  Stage stage = Stage::lazy;
};

template <class T>
struct Promise : PromiseBase {
  Task<T> get_return_object();
  template <class U>
    requires std::convertible_to<U&&, T>
  void return_value(U&& value) {
    result.emplace(std::forward<U>(value));
  }
  T take() { return std::move(*result); }
  std::optional<T> result;
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() const noexcept {}
  void take() const noexcept {}
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Task() { reset(); }

  explicit operator bool() const { return static_cast<bool>(handle_); }
  void reset() {
    if (auto h = std::exchange(handle_, nullptr)) h.destroy();
  }

  struct Awaiter {
    Handle child;
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> parent) const {
      auto& p = child.promise();
      PEN_CHECK(p.stage == detail::PromiseBase::Stage::lazy, "a task is awaited once");
      p.parent = parent;
      p.stage = detail::PromiseBase::Stage::starting;
      child.resume();
      if (p.stage == detail::PromiseBase::Stage::ended) return false;
      p.stage = detail::PromiseBase::Stage::suspended;
      return true;
    }
    T await_resume() const { return child.promise().take(); }
  };
  /// The awaited frame stays in this Task, so a temporary Task lives long enough: to the end of the full expression.
  Awaiter operator co_await() const { return Awaiter{handle_}; }

 private:
  Handle handle_ = nullptr;
};

template <class T>
Task<T> detail::Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}
inline Task<void> detail::Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

}  // namespace pen::async
