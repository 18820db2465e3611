#include "lib/base/forked_signals.h"

namespace pen {

HeldSignals::HeldSignals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

HeldSignals::~HeldSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void handle_signals_as_new_process() {
  for (int signo = 1; signo < NSIG; ++signo) {
    struct sigaction action{};
    if (::sigaction(signo, nullptr, &action) != 0 || action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL)
      continue;
    action = {};
    action.sa_handler = SIG_DFL;
    (void)::sigaction(signo, &action, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace pen
