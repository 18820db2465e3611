#pragma once
/// The processes that the keeper starts: masters, and those that write a line to the log.
///
/// Each reads the configuration itself, and what goes wrong with one goes wrong in the child: a main.cf that would end
/// every master ends no keeper. Where it cannot be read, what was known at the start is used: master is run, and says
/// itself why it cannot go on.
/// Use:     PEN_TRY_ASSIGN(const Place known, look(directory));
///          const pid_t master = run_master(known, "/run/…/notify", kept, -1);
///          say(known, log::Level::warning, "…");
/// Errors:  of fork(): -1. A child that cannot run master ends with EX_UNAVAILABLE.
/// Thread:  of a process that has no other: it forks.
#include <sys/types.h>

#include <string>

#include "keeper/store.h"
#include "lib/base/log.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen::keeper {

/// What the configuration says.
struct Place {
  std::string directory;  // of the configuration
  std::string master;     // the program
  log::Options log;
  milliseconds lease{0};  // standby_lease_time; 0: no other host waits for the queue
};
Result<Place> look(const std::string& directory);

/// As a service manager starts a service. kept: become its descriptors from 3 on. report: what it reports its start on;
/// -1: nobody is interested.
pid_t run_master(const Place& known, const std::string& notify, const Store& kept, int report);

/// The process that writes a line to the log: the caller waits for it, some time. -1: none.
pid_t say(const Place& known, log::Level level, const std::string& text);

}  // namespace pen::keeper
