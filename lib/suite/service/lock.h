#pragma once
/// Which process is master of an instance: two lock files in its state directory, $queue_directory/pid.
///
/// master.lock:    held by the running master; holds its pid. A second start is refused.
/// programs.lock:  shared by master and every program that it started. A new master takes it for itself alone before it
///                 opens a socket, and so waits until the programs of one that was killed are gone; then it shares it.
/// The locks belong to open files: they end with the processes, whatever ended those. Each program has an open file of
/// its own: one that was taken over can release its own lock, and no other.
/// Trust:  the directory belongs to the user who starts the mail system, root as a rule, and is closed to others: what
///         root writes here goes where root means it to, and the pid that root signals is one that root's master
///         wrote.
#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/config/config.h"

namespace pen::service {

enum class LockError { held = 1, former_programs, not_ours };
inline std::string_view error_module(LockError) { return "lock"; }
inline std::string_view describe(LockError e) {
  switch (e) {
    case LockError::held:
      return "the mail system is already running";
    case LockError::former_programs:
      return "programs of a former master do not end";
    case LockError::not_ours:
      return "not a file of this user's own";
  }
  return "?";
}

/// Where an instance keeps its locks and master's status file.
std::string state_directory(const config::Settings& settings);

struct Locks {
  Fd master, programs;
};
/// Waits at most `patience` for former programs (they end by themselves at once), and for what a former master was
/// about to start. former: the lock that they have,
/// where they are to go on under the new master.
Result<Locks> take_locks(const std::string& state_directory, seconds patience, Fd former = Fd());

/// programs.lock for a program that is about to be started. programs: master's.
Result<Fd> share_programs_lock(int programs);

/// How long a start waits for a master that holds the lock: one that was killed a moment ago may
/// still be about to end.
inline constexpr milliseconds kDyingMaster{500};

/// A process that cannot be mistaken for a later one of the same number.
class Process {
 public:
  /// nullopt: there is none.
  static std::optional<Process> open(pid_t pid);
  pid_t pid() const { return pid_; }
  /// Waits for its end. False: it lives on after that time.
  bool gone_within(milliseconds patience) const;
  /// Errors: EPERM; ESRCH, it is gone.
  Result<void> signal(int signo) const;

 private:
  Process(pid_t pid, Fd fd) : pid_(pid), fd_(std::move(fd)) {}
  pid_t pid_;
  Fd fd_;
};
/// Master answers this signal by writing its status file anew, so that the asker sees that it does not hang. One that
/// does not know it is not harmed.
inline constexpr int kAskMaster = SIGWINCH;
/// The running master; nullopt: none. Errors: EACCES, only root and the user who started the mail system may know;
/// not_ours.
Result<std::optional<Process>> running_master(const std::string& state_directory);
/// Whether programs run that a master has started: where there is none, those that the next one takes over
/// (docs/upgrade.md, "When master dies"). They take and deliver mail. Those that are about to end are waited for, for a
/// second. Errors as above. For a process with a single thread.
Result<bool> programs_run(const std::string& state_directory);

}  // namespace pen::service
