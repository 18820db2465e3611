#pragma once
/// Who is master of an instance: two lock files in data_directory.
///
/// master.lock:    held by the running master; holds its pid. A second start is refused.
/// programs.lock:  open in master and in every program it started. A new master takes it before it
///                 opens a socket, and so waits until the programs of one that was killed are gone.
/// The locks belong to open files: they end with the processes, whatever ended those.
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "lib/async/fd.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen::service {

enum class LockError { held = 1, former_programs };
inline std::string_view error_module(LockError) { return "lock"; }
inline std::string_view describe(LockError e) {
  return e == LockError::held ? "the mail system is already running"
                              : "programs of a former master do not end";
}

struct Locks {
  async::Fd master, programs;
};
/// Waits for the end of a process. False: it lives on after that time.
bool wait_until_gone(pid_t pid, milliseconds patience);
/// How long a start waits for a master that holds the lock: one that was killed a moment ago may
/// still be about to end.
inline constexpr milliseconds kDyingMaster{500};
/// Waits at most `patience` for former programs (they end by themselves at once).
Result<Locks> take_locks(const std::string& data_directory, seconds patience);
/// The pid of the running master; nullopt: none.
std::optional<pid_t> running_master(const std::string& data_directory);

}  // namespace pen::service
