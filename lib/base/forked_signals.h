#pragma once
/// Signals around fork(). A child has its parent's handlers until it runs another program, and a handler of an event
/// loop writes into a pipe that both share: the parent would take a signal to its child for one to itself, and end.
///
/// Use:     HeldSignals held;                       // none is handled from here to the end of the block
///          if (const pid_t pid = ::fork(); pid == 0) {
///            handle_signals_as_new_process();      // those that came meanwhile act now, on the child
///            ::execv(…);
///          }
/// Thread:  the one that forks. handle_signals_as_new_process() does nothing but system calls.
#include <csignal>

namespace pen {

/// Blocks all signals of this thread, and gives it the former set of blocked ones at the end of the block.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_;
};

/// In the child: what has a handler acts as in a new process, what is ignored stays so, and none is blocked.
void handle_signals_as_new_process();

}  // namespace pen
