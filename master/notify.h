#pragma once
/// Tells the service manager that started master how it goes: systemd's notification protocol, one datagram a message.
///
/// Use:     Notifier notifier = Notifier::from_environment();
///          notifier.ready("11 services");  notifier.stopping();
///          if (notifier.watchdog() != none) … notifier.alive() that often
/// Owns:    its socket. Without NOTIFY_SOCKET every call does nothing.
/// Errors:  a service manager that cannot be reached is no reason to stop mail: send() returns the error, and master
///          logs the first one.
/// Thread:  master's only one.
/// Source:  sd_notify(3), sd_watchdog_enabled(3): the variables, the assignments, and "@" for an abstract socket.
#include <string>
#include <string_view>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen::master {

class Notifier {
 public:
  /// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID and removes them, so that no program of ours speaks in
  /// master's name.
  static Notifier from_environment();
  /// For tests: the address as in NOTIFY_SOCKET, and how often the manager wants to hear (0: it does not).
  Notifier(std::string address, std::chrono::microseconds patience);

  /// Start, or a reload, is done. status: a short text for "systemctl status".
  Result<void> ready(std::string_view status);
  /// A reload begins. now: the monotonic clock.
  Result<void> reloading(SteadyTime now);
  Result<void> stopping();
  Result<void> status(std::string_view text);
  Result<void> alive();
  /// How often to call alive(): half of the manager's patience. 0: never.
  std::chrono::nanoseconds watchdog() const { return patience_ / 2; }

 private:
  Result<void> send(std::string_view assignments);
  std::string address_;
  std::chrono::nanoseconds patience_;
  Fd socket_;
};

}  // namespace pen::master
