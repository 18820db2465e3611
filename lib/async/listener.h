#pragma once
/// Accepts connections, no more at a time than a bound allows.
///
/// Use:     Listener listener(loop, fd, bound);
///          for (;;) if (auto accepted = co_await listener.accept(until)) loop.spawn(…, session(*std::move(accepted)));
/// Thread:  the loop's.
#include <memory>

#include "lib/async/stream.h"

namespace pen::async {

struct ListenerState;

/// A listening socket and a bound on what was accepted and not yet closed.
///
/// accept() waits while `bound` accepted streams live (the kernel's backlog then fills: backpressure), so hold the
/// Slot that comes with each stream for the session's life.
class Listener {
 public:
  /// Takes a bound, listening, non-blocking socket (from master or listen_on()).
  Listener(Loop& loop, Fd fd, std::size_t bound);
  ~Listener();
  Listener(Listener&&) noexcept;

  class Slot {  // releases its place when destroyed
   public:
    Slot() = default;
    explicit Slot(std::shared_ptr<ListenerState> s);
    Slot(Slot&&) noexcept = default;
    Slot& operator=(Slot&&) noexcept;
    ~Slot();

   private:
    std::shared_ptr<ListenerState> state_;
  };
  struct Accepted {
    Stream stream;
    SocketAddress peer;
    Slot slot;
  };
  /// Errors: cancelled, timed_out, closed; EMFILE and the like after the listener paused a moment (it goes on itself).
  Task<Result<Accepted>> accept(Until until = {});
  std::size_t live() const;
  /// While paused no connection is accepted: those that come wait in the kernel's backlog.
  void pause(bool paused);
  void close();
  int fd() const;

 private:
  std::shared_ptr<ListenerState> state_;
};

}  // namespace pen::async
