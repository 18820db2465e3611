#include "lib/base/async/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "lib/base/async/poll.h"

namespace pen::async {

using detail::Waiter;

namespace {
constexpr milliseconds kPause{100};  // how long accepting pauses when descriptors or memory ran out
// Open sessions must not wait behind a flood of new ones.
constexpr unsigned kAcceptsPerTurn = 64;
}  // namespace

struct ListenerState final : detail::PollClient {
  ListenerState(Loop& l, Fd f, std::size_t b, bool shared)
      : loop(l), fd(std::move(f)), poll(l, *this), bound(b), each_turn(shared ? 1 : kAcceptsPerTurn) {}

  void on_ready(bool, bool) override {
    if (open() && accepters.linked()) {
      wake();
    } else {
      poll.drop_read();
    }
  }
  bool waiting() const override { return accepters.linked(); }
  void wake() { Waiter::settle_first(accepters, Waiter::Outcome::done); }
  void close() {
    if (!fd) return;
    poll.detach();
    fd.reset();
    Waiter::settle_all(accepters, Waiter::Outcome::closed);
  }
  bool open() const { return live < bound && !paused; }
  bool over_budget() {
    if (turn != loop.turn()) {
      turn = loop.turn();
      accepted_in_turn = 0;
    }
    return ++accepted_in_turn > each_turn;
  }

  Loop& loop;
  Fd fd;
  detail::Poll poll;
  Link accepters;
  std::size_t bound;
  unsigned each_turn;
  std::size_t live = 0;
  bool paused = false;
  std::uint64_t turn = 0;
  unsigned accepted_in_turn = 0;
};

namespace {

/// Waits until there may be a connection and there is room for it.
struct AcceptAwaiter {
  ListenerState& s;
  Until until;
  Waiter waiter;
  bool await_ready() const { return !s.fd; }
  void await_suspend(std::coroutine_handle<> h) {
    s.accepters.push_back(waiter.queue_link);
    waiter.suspend(h, until);
    // When all places are taken, a Slot wakes us; after a pause, its end does. The socket is not watched
    // (backpressure).
    if (s.open() && s.poll.want_read(s.fd.get()) != 0) s.close();
  }
  Result<void> await_resume() const { return waiter.result(); }
};

bool out_of_resources(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

// The coroutine holds the state by value: the Listener may be moved or destroyed meanwhile.
Task<Result<Listener::Accepted>> accept_next(std::shared_ptr<ListenerState> s, Until until) {
  for (;;) {
    if (!s->fd) co_return fail(WaitError::closed);
    if (until.cancel && until.cancel->raised()) co_return fail(WaitError::cancelled);
    if (s->open()) {
      if (s->over_budget()) {
        co_await s->loop.next_turn();
        continue;
      }
      Fd fd(::accept4(s->fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd) {
        auto peer = peer_address(fd.get());
        if (!peer) continue;  // the peer has gone already
        const int on = 1;
        if (!peer->is_unix()) ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        co_return Listener::Accepted{Stream(s->loop, std::move(fd)), std::move(*peer), Listener::Slot(s)};
      }
      if (const int error = errno; out_of_resources(error)) {
        PEN_CO_TRY(co_await s->loop.sleep(kPause, until));
        co_return fail_errno("accept", error);
      } else if (error != EAGAIN) {
        if (error == EBADF || error == EINVAL || error == ENOTSOCK) co_return fail_errno("accept", error);
        continue;  // an error of that one connection (accept(2)): take the next one
      }
    }
    PEN_CO_TRY((co_await AcceptAwaiter{*s, until, Waiter(s->loop)}));
  }
}

}  // namespace

Listener::Listener(Loop& loop, Fd fd, std::size_t bound, bool shared)
    : state_(std::make_shared<ListenerState>(loop, std::move(fd), bound, shared)) {}
Listener::~Listener() {
  if (state_) state_->close();
}
Listener::Listener(Listener&&) noexcept = default;

Listener::Slot::Slot(std::shared_ptr<ListenerState> s) : state_(std::move(s)) { ++state_->live; }
Listener::Slot& Listener::Slot::operator=(Slot&& other) noexcept {
  Slot old(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}
Listener::Slot::~Slot() {
  if (state_ && state_->live-- == state_->bound) state_->wake();
}

Task<Result<Listener::Accepted>> Listener::accept(Until until) { return accept_next(state_, until); }
std::size_t Listener::live() const { return state_->live; }
void Listener::pause(bool paused) {
  if (std::exchange(state_->paused, paused) == paused || paused) return;
  if (state_->live < state_->bound) state_->wake();
}
void Listener::close() { state_->close(); }
int Listener::fd() const { return state_->fd.get(); }

}  // namespace pen::async
