#include "lib/base/async/loop.h"

#include <uv.h>

#include <map>
#include <mutex>

#include "lib/base/async/poll.h"
#include "lib/base/async/spawned.h"
#include "lib/base/log.h"

namespace pen::async {
namespace {
// The ready list runs in rounds until it is empty. The bound keeps an endless chain of wake-ups from starving I/O.
constexpr unsigned kMaxRounds = 64;
// The time that a turn spends on long steps before other work gets its turn. No peer across a network notices a delay
// of this length, and the look at I/O after it costs little in comparison.
constexpr milliseconds kLongSteps{1};
// A burst of more gives its memory back.
constexpr std::size_t kKeptPosts = 64;
}  // namespace

struct SignalHandle {
  uv_signal_t uv{};
  Loop* loop = nullptr;
  std::function<void(int)> fn;
};

class Loop::Timer : public detail::WheelNode {
 public:
  std::move_only_function<void()> fn;
  Loop* loop = nullptr;
};

void Loop::TimerDelete::operator()(Timer* timer) const { delete timer; }

struct Loop::Impl {
  explicit Impl(const Clock& c) : clock(c), now(c.now()), wheel(now) {}

  const Clock& clock;
  SteadyTime now;
  bool in_turn = false;
  bool stopping = false;
  std::uint64_t turn = 1;
  unsigned held = 0;

  detail::TimerWheel wheel;
  Link ready;
  Link ready_next;
  Link end_of_turn;
  Link long_steps;
  Link spawned;
  Link polls;
  std::size_t spawned_count = 0;
  std::vector<std::move_only_function<void()>> posts;
  std::vector<std::move_only_function<void()>> spare_posts;  // the memory of those that have run

  std::mutex mutex;  // guards the members below
  std::vector<std::move_only_function<void()>> thread_posts;
  bool thread_stop = false;

  uv_loop_t uv{};
  uv_async_t async{};  // always referenced: it keeps uv_run() willing to wait
  uv_timer_t wheel_timer{};
  uv_timer_t wait_timer{};
  SteadyTime wheel_armed = kNever;
  std::map<int, std::unique_ptr<SignalHandle>> signals;

  void refresh() { now = clock.now(); }
  bool runnable() const {
    return ready.linked() || ready_next.linked() || end_of_turn.linked() || long_steps.linked() || !posts.empty();
  }
  void take_thread_posts() {
    const std::lock_guard lock(mutex);
    for (auto& fn : thread_posts) posts.push_back(std::move(fn));
    thread_posts.clear();
    if (std::exchange(thread_stop, false)) stopping = true;
  }
  void run_posts() {
    auto batch = std::exchange(posts, std::exchange(spare_posts, {}));
    for (auto& fn : batch) fn();
    batch.clear();
    if (batch.capacity() <= kKeptPosts) spare_posts = std::move(batch);
  }
  /// Does everything that needs no waiting, except I/O.
  void work() {
    wheel.advance(now);
    ready.splice_back(ready_next);
    for (unsigned round = 0; round < kMaxRounds && (ready.linked() || !posts.empty()); ++round) {
      run_posts();
      Link batch;
      batch.splice_back(ready);
      while (batch.linked()) {
        auto& node = static_cast<detail::ReadyNode&>(*batch.next);
        node.unlink();
        node.handle.resume();
      }
      if (!ready.linked()) run_end_of_turn();
    }
    run_end_of_turn();
    run_long_steps();
  }
  static void run_first(Link& list) {
    auto& node = static_cast<detail::EndOfTurn&>(*list.next);
    node.unlink();
    node.run(node);
  }
  void run_end_of_turn() {
    Link batch;
    batch.splice_back(end_of_turn);
    while (batch.linked()) run_first(batch);
  }
  void run_long_steps() {
    if (!long_steps.linked()) return;
    const SteadyTime end = clock.now() + kLongSteps;
    do {
      run_first(long_steps);
    } while (long_steps.linked() && clock.now() < end);
  }
  /// Called for an alarm that was due before uv_run() began, because the turn took too long. The alarm ends uv_run()
  /// before the poll; otherwise uv_run() would wait for I/O with no alarm left.
  static void ring(uv_timer_t* timer) { uv_stop(timer->loop); }
  void arm_wheel() {
    const SteadyTime next = wheel.next();
    if (next >= wheel_armed) return;  // an earlier alarm is harmless
    wheel_armed = next;
    const auto wait = std::max(next - now, std::chrono::nanoseconds(0));
    const auto ms = std::chrono::ceil<milliseconds>(wait).count();
    uv_timer_start(
        &wheel_timer,
        [](uv_timer_t* t) {
          static_cast<Impl*>(t->data)->wheel_armed = kNever;
          ring(t);
        },
        static_cast<std::uint64_t>(ms), 0);
  }
  bool anything_left() {
    if (runnable() || held > 0 || wheel.next() != kNever) return true;
    for (Link* l = polls.next; l != &polls; l = l->next) {
      if (static_cast<detail::Poll*>(l)->client().waiting()) return true;
    }
    const std::lock_guard lock(mutex);
    return !thread_posts.empty();
  }
  void poll_io(bool wait) {
    if (wait) arm_wheel();
    log::flush();
    in_turn = false;  // code called from within uv_run() may run hours after this turn's time
    uv_run(&uv, wait ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    in_turn = true;
    ++turn;
    take_thread_posts();
    refresh();
  }
};

Loop::Loop(const Clock& clock) : impl_(std::make_unique<Impl>(clock)) {
  Impl& i = *impl_;
  PEN_CHECK(uv_loop_init(&i.uv) == 0, "no event loop: out of descriptors or memory");
  i.uv.data = &i;
  uv_async_init(&i.uv, &i.async, [](uv_async_t*) {});
  uv_timer_init(&i.uv, &i.wheel_timer);
  uv_timer_init(&i.uv, &i.wait_timer);
  i.wheel_timer.data = i.wait_timer.data = &i;
}

Loop::~Loop() {
  Impl& i = *impl_;
  while (i.spawned.linked()) detail::Spawned::of(*i.spawned.next).abandon();
  i.posts.clear();
  i.thread_posts.clear();
  while (i.polls.linked()) static_cast<detail::Poll*>(i.polls.next)->detach();
  for (auto& [signo, handle] : i.signals) uv_close(reinterpret_cast<uv_handle_t*>(&handle->uv), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&i.async), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&i.wheel_timer), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&i.wait_timer), nullptr);
  uv_run(&i.uv, UV_RUN_DEFAULT);
  PEN_CHECK(uv_loop_close(&i.uv) == 0, "a handle outlives the loop");
}

void Loop::run() {
  Impl& i = *impl_;
  i.stopping = false;
  i.in_turn = true;
  i.refresh();
  i.take_thread_posts();
  while (!i.stopping) {
    i.work();
    if (i.stopping || !i.anything_left()) break;
    i.poll_io(!i.runnable());
  }
  i.in_turn = false;
}

void Loop::run_once(milliseconds max_wait) {
  Impl& i = *impl_;
  i.in_turn = true;
  i.refresh();
  i.take_thread_posts();
  i.work();
  const bool wait = max_wait.count() > 0 && !i.runnable();
  if (wait) {
    uv_update_time(&i.uv);
    uv_timer_start(&i.wait_timer, Impl::ring, static_cast<std::uint64_t>(max_wait.count()), 0);
  }
  i.poll_io(wait);
  if (wait) uv_timer_stop(&i.wait_timer);
  i.work();
  i.in_turn = false;
}

void Loop::stop() { impl_->stopping = true; }

void Loop::stop_from_thread() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->thread_stop = true;
  }
  uv_async_send(&impl_->async);
}

SteadyTime Loop::now() const {
  if (!impl_->in_turn) impl_->refresh();
  return impl_->now;
}

const Clock& Loop::clock() const { return impl_->clock; }

void Loop::spawn(std::string name, Task<void> task) {
  detail::Spawned::start(*this, std::move(name), std::move(task), nullptr, nullptr);
}

std::size_t Loop::spawned() const { return impl_->spawned_count; }

std::vector<std::string> Loop::list_tasks() const {
  std::vector<std::string> lines;
  for (Link* l = impl_->spawned.next; l != &impl_->spawned; l = l->next) {
    lines.push_back(detail::Spawned::of(*l).describe());
  }
  return lines;
}

void Loop::post(std::move_only_function<void()> fn) { impl_->posts.push_back(std::move(fn)); }

void Loop::post_from_thread(std::move_only_function<void()> fn) {
  bool first = false;
  {
    const std::lock_guard lock(impl_->mutex);
    first = impl_->thread_posts.empty();
    impl_->thread_posts.push_back(std::move(fn));
  }
  if (first) uv_async_send(&impl_->async);
}

Loop::TimerHandle Loop::call_at(SteadyTime when, std::move_only_function<void()> fn) {
  TimerHandle timer(new Timer);
  timer->fn = std::move(fn);
  timer->loop = this;
  timer->fire = [](detail::WheelNode& node) {
    auto call = std::move(static_cast<Timer&>(node).fn);
    call();
  };
  if (when != kNever) {
    if (when <= now()) when = now();
    impl_->wheel.insert(*timer, when);
  }
  return timer;
}

void Loop::at_end_of_turn(detail::EndOfTurn& node) {
  if (!node.linked()) impl_->end_of_turn.push_back(node);
}

void Loop::make_ready(detail::ReadyNode& node) { impl_->ready.push_back(node); }
void Loop::make_ready_next_turn(detail::ReadyNode& node) { impl_->ready_next.push_back(node); }
void* Loop::native() { return &impl_->uv; }
std::uint64_t Loop::turn() const { return impl_->turn; }
void Loop::hold() { ++impl_->held; }
void Loop::unhold() { --impl_->held; }

namespace {

struct SleepAwaiter {
  detail::Waiter waiter;
  Until until;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> h) { waiter.suspend(h, until); }
  detail::Waiter::Outcome await_resume() const { return waiter.outcome(); }
};

struct ReadyAwaiter {
  Loop& loop;
  bool next_turn;
  detail::ReadyNode node;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> h) {
    node.handle = h;
    if (next_turn) {
      loop.make_ready_next_turn(node);
    } else {
      loop.make_ready(node);
    }
  }
  void await_resume() const {}
};

}  // namespace

Task<Result<void>> Loop::sleep(std::chrono::nanoseconds time, Until until) {
  const SteadyTime end = time < kNever - now() ? now() + time : kNever;
  const bool cut = until.deadline < end;
  const auto outcome =
      co_await SleepAwaiter{detail::Waiter(*this), {.deadline = cut ? until.deadline : end, .cancel = until.cancel}};
  if (outcome == detail::Waiter::Outcome::cancelled) co_return fail(WaitError::cancelled);
  if (cut) co_return fail(WaitError::timed_out);
  co_return Result<void>{};
}

Task<void> Loop::yield() { co_await ReadyAwaiter{*this, false, {}}; }
Task<void> Loop::next_turn() { co_await ReadyAwaiter{*this, true, {}}; }

Result<void> Loop::on_signal(int signo, std::function<void(int)> fn) {
  auto& slot = impl_->signals[signo];
  if (slot) {
    slot->fn = std::move(fn);
    return {};
  }
  slot = std::make_unique<SignalHandle>();
  slot->loop = this;
  slot->fn = std::move(fn);
  slot->uv.data = slot.get();
  uv_signal_init(&impl_->uv, &slot->uv);
  uv_unref(reinterpret_cast<uv_handle_t*>(&slot->uv));
  const int rc = uv_signal_start(
      &slot->uv,
      [](uv_signal_t* s, int n) {
        auto* handle = static_cast<SignalHandle*>(s->data);  // lives as long as the loop
        handle->loop->post([handle, n] { handle->fn(n); });
      },
      signo);
  if (rc != 0) return fail_errno("signal " + std::to_string(signo), -rc);
  return {};
}

namespace detail {

Link& spawned_list(Loop& loop) { return loop.impl().spawned; }
void count_spawned(Loop& loop, int by) {
  loop.impl().spawned_count += static_cast<std::size_t>(static_cast<std::ptrdiff_t>(by));
}
Link& poll_list(Loop& loop) { return loop.impl().polls; }
void run_when_there_is_time(Loop& loop, EndOfTurn& node) {
  if (!node.linked()) loop.impl().long_steps.push_back(node);
}

void Waiter::suspend(std::coroutine_handle<> h, const Until& until) {
  ready_link_.handle = h;
  if (until.cancel) {
    if (until.cancel->raised()) return settle(Outcome::cancelled);
    until.cancel->waiters_.push_back(cancel_link_);
  }
  if (until.deadline == kNever) return;
  if (until.deadline <= loop_.now()) return settle(Outcome::timed_out);
  wheel_link_.owner = this;
  wheel_link_.fire = [](WheelNode& node) { static_cast<DeadlineNode&>(node).owner->settle(Outcome::timed_out); };
  loop_.impl().wheel.insert(wheel_link_, until.deadline);
}

void Waiter::settle(Outcome outcome) {
  if (settled()) return;
  outcome_ = outcome;
  queue_link.unlink();
  wheel_link_.unlink();
  cancel_link_.unlink();
  loop_.make_ready(ready_link_);
}

void Waiter::defer(std::coroutine_handle<> h) {
  ready_link_.handle = h;
  outcome_ = Outcome::done;
  loop_.make_ready_next_turn(ready_link_);
}

Result<void> Waiter::result() const {
  switch (outcome_) {
    case Outcome::pending:  // never suspended: the condition held at once
    case Outcome::done:
      return {};
    case Outcome::timed_out:
      return fail(WaitError::timed_out);
    case Outcome::cancelled:
      return fail(WaitError::cancelled);
    case Outcome::closed:
      return fail(WaitError::closed);
  }
  return {};
}

}  // namespace detail

void Cancel::raise() {
  raised_ = true;
  detail::Waiter::settle_all(waiters_, detail::Waiter::Outcome::cancelled);
}

}  // namespace pen::async
