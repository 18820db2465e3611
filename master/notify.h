#pragma once
/// Reports to the service manager that started master: systemd's notification protocol, one datagram a message;
/// and leaves descriptors with it that outlive master.
///
/// Use:     Notifier notifier = Notifier::from_environment();
///          notifier.ready("11 services");  notifier.stopping();
///          if (notifier.watchdog() != none) … notifier.alive() that often
///          notifier.keep("l1", fd);  notifier.forget("l1");       // FDSTORE
///          notifier.keeper()                                       // who it is, if it is ours (keeper.8)
///          Descriptors former = take_kept_descriptors();           // what a master before us left
/// Owns:    its socket. Without NOTIFY_SOCKET every call does nothing.
/// Errors:  a service manager that cannot be reached is no reason to stop mail: send() returns the error, and master
///          logs the first one.
/// Thread:  master's only one.
/// Source:  sd_notify(3), sd_watchdog_enabled(3), sd_listen_fds(3): the variables, the assignments, and "@" for an
///          abstract socket.
#include <sys/types.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen::master {

class Notifier {
 public:
  /// Reads NOTIFY_SOCKET, PENSTOCK_KEEPER, WATCHDOG_USEC and WATCHDOG_PID and removes them, so that no program of ours
  /// speaks in master's name.
  static Notifier from_environment();
  /// For tests: the address as in NOTIFY_SOCKET, and how often the manager wants to hear (0: it does not).
  Notifier(std::string address, std::chrono::microseconds patience);

  /// There is somebody to tell.
  bool connected() const { return !address_.empty(); }
  /// The keeper's process id; 0: a service manager, or nobody.
  pid_t keeper() const { return keeper_; }
  /// Start, or a reload, is done. status: a short text for "systemctl status".
  /// Waits at most a second for a manager that does not read: one that never hears it takes the start for failed.
  Result<void> ready(std::string_view status);
  /// A reload begins. now: the monotonic clock.
  Result<void> reloading(SteadyTime now);
  /// Waits as ready() does: a keeper that never hears it starts another master if this one is killed while it stops.
  Result<void> stopping();
  /// A short text for "systemctl status": control characters become "?", and 500 characters are told.
  Result<void> status(std::string_view text);
  /// For the watchdog.
  Result<void> alive();
  /// How often to call alive(): half of the manager's patience. 0: never.
  std::chrono::nanoseconds watchdog() const { return patience_ / 2; }

  /// Leaves a copy of the descriptor with the manager, which hands it to the next master. name: letters and digits.
  /// Waits at most a second for a manager that does not read.
  Result<void> keep(const std::string& name, int fd);
  /// The manager closes what it keeps under the name. Waits as keep() does.
  Result<void> forget(const std::string& name);

  /// What from_environment() took, for a master that takes over from this one in the same process.
  std::vector<std::string> environment() const;

 private:
  Result<void> send(std::string_view assignments, int fd = -1, bool wait = false);
  std::string address_;
  std::chrono::nanoseconds patience_;
  pid_t keeper_ = 0;
  Fd socket_;
};

/// Descriptors by name.
using Descriptors = std::map<std::string, Fd>;

/// What a former master left with the service manager (LISTEN_FDS, LISTEN_FDNAMES, LISTEN_PID, which are removed).
/// Descriptors without a name of their own are closed. Before this process opens any file.
Descriptors take_kept_descriptors();

}  // namespace pen::master
