#include "lib/base/async/readiness.h"

#include "lib/base/async/poll.h"

namespace pen::async {

using detail::Waiter;

struct Readiness::Impl final : detail::PollClient {
  Impl(Loop& l, int f) : loop(l), fd(f), poll(l, *this) {}

  void on_ready(bool readable, bool writable) override {
    if (readable && !wake(readers)) poll.drop_read();
    if (writable && !wake(writers)) poll.drop_write();
  }
  bool waiting() const override { return readers.linked() || writers.linked(); }
  static bool wake(Link& list) {
    Waiter* w = Waiter::first(list);
    if (w) w->settle(Waiter::Outcome::done);
    return w != nullptr;
  }

  struct Awaiter {
    Impl& impl;
    bool write;
    Until until;
    Waiter waiter;
    int error = 0;

    bool await_ready() {
      error = write ? impl.poll.want_write(impl.fd) : impl.poll.want_read(impl.fd);
      return error != 0;
    }
    void await_suspend(std::coroutine_handle<> h) {
      (write ? impl.writers : impl.readers).push_back(waiter.queue_link);
      waiter.suspend(h, until);
    }
    Result<void> await_resume() const {
      if (error != 0) return fail_errno("watch", error);
      return waiter.result();
    }
  };

  Loop& loop;
  int fd;
  detail::Poll poll;
  Link readers, writers;
};

Readiness::Readiness(Loop& loop, int fd) : impl_(std::make_unique<Impl>(loop, fd)) {}
Readiness::~Readiness() = default;
Readiness::Readiness(Readiness&&) noexcept = default;
Readiness& Readiness::operator=(Readiness&&) noexcept = default;

Task<Result<void>> Readiness::readable(Until until) {
  Impl& i = *impl_;
  co_return co_await Impl::Awaiter{i, false, until, Waiter(i.loop)};
}
Task<Result<void>> Readiness::writable(Until until) {
  Impl& i = *impl_;
  co_return co_await Impl::Awaiter{i, true, until, Waiter(i.loop)};
}

}  // namespace pen::async
