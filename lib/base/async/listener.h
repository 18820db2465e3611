#pragma once
/// Accepts connections, up to a bound on how many are open at once.
///
/// Use:     Listener listener(loop, fd, bound);
///          for (;;) if (auto accepted = co_await listener.accept(until)) loop.spawn(…, session(*std::move(accepted)));
/// Thread:  the loop's.
#include <memory>

#include "lib/base/async/stream.h"

namespace pen::async {

struct ListenerState;

/// A listening socket with a bound on connections that were accepted and are not yet closed.
///
/// accept() waits while `bound` connections are open; the kernel's backlog then fills (backpressure). Each connection
/// comes with a Slot: hold it as long as the session lives.
class Listener {
 public:
  /// Takes a bound, listening, non-blocking socket (from master or listen_on()). shared: other processes accept there
  /// too, so it takes one connection a turn, and the one that has most to do takes fewest.
  Listener(Loop& loop, Fd fd, std::size_t bound, bool shared = false);
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
  /// Errors: cancelled, timed_out, closed. After EMFILE and the like the listener pauses for a moment and resumes by
  /// itself.
  Task<Result<Accepted>> accept(Until until = {});
  std::size_t live() const;
  /// While paused no connection is accepted: new ones wait in the kernel's backlog.
  void pause(bool paused);
  void close();
  int fd() const;

 private:
  std::shared_ptr<ListenerState> state_;
};

}  // namespace pen::async
