#include "lib/base/async/spawned.h"

#include <fmt/format.h>

namespace pen::async::detail {
namespace {

/// A coroutine that owns its frame.
struct Detached {
  struct promise_type {
    static void* operator new(std::size_t size) { return allocate_frame(size); }
    static void operator delete(void* frame, std::size_t size) noexcept { release_frame(frame, size); }
    Detached get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

Detached run(Spawned* self, Task<void> task) {
  co_await task;
  task.reset();
  void (*const ended)(void*) = self->ended;
  void* const context = self->context;
  count_spawned(self->loop, -1);
  delete self;
  if (ended) ended(context);
}

}  // namespace

Spawned* Spawned::start(Loop& loop, std::string name, Task<void> task, void (*ended)(void*), void* context) {
  auto* self = new Spawned{loop, std::move(name), loop.now(), ended, context, {}};
  self->ready.handle = run(self, std::move(task)).handle;
  spawned_list(loop).push_back(self->in_loop);
  count_spawned(loop, +1);
  loop.make_ready(self->ready);
  return self;
}

void Spawned::abandon() {
  in_loop.unlink();
  in_gate.unlink();
  count_spawned(loop, -1);
  const std::coroutine_handle<> handle = ready.handle;
  delete this;
  handle.destroy();
}

std::string Spawned::describe() const {
  const double age = std::chrono::duration<double>(loop.now() - started).count();
  return fmt::format("{} {:.1f}s", name, age);
}

}  // namespace pen::async::detail
