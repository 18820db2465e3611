#pragma once
/// A pool of threads for blocking work: look-ups in files and databases, PAM, fdatasync. See docs/origins.md,
/// "Multifoo".
///
/// Use:     auto r = co_await pool.run([key]{ return map.lookup(key); });       // r: the callable's result
/// Bounds:  at most `threads` callables run at once, and at most `queue` wait; beyond that run() waits for room
///          (backpressure).
/// Lifetime: the callable runs to its end even when the awaiting task is destroyed meanwhile. So it must own what it
///          uses (captures by value or shared_ptr). The pool's destructor waits for running callables.
/// Thread:  run() from the loop's thread; the callable elsewhere; the await ends in the loop's thread.
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>

#include "lib/base/async/loop.h"

namespace pen::async {

class HandlerPool {
 public:
  HandlerPool(Loop& loop, std::size_t threads, std::size_t queue = 10000);
  ~HandlerPool();
  HandlerPool(const HandlerPool&) = delete;
  HandlerPool& operator=(const HandlerPool&) = delete;

  template <class F, class R = std::invoke_result_t<F&>>
  Task<R> run(F work) {
    struct Shared {
      F work;
      std::optional<R> result;
    };
    auto shared = std::make_shared<Shared>(Shared{std::move(work), std::nullopt});
    co_await run_erased([shared] { shared->result.emplace(shared->work()); });
    co_return std::move(*shared->result);
  }
  /// The same for work without a result.
  Task<void> run_erased(std::function<void()> work);

  std::size_t waiting() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace pen::async
